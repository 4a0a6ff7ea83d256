// RUN: fsdp-opt %s --fsdp-unshard --split-input-file | FileCheck %s
// RUN: fsdp-opt %stages/3-scheduled.mlir --fsdp-unshard -o %t.unsharded
// RUN: fsdp-opt %stages/3-scheduled.mlir --fsdp-verify-equivalent=to=%t.unsharded -o %t

// What only metrics and optimizer need is gone, a cast of a shard is one of the
// whole parameter, the optimizer's gradient a result, the reference untouched.

// CHECK-NOT:     #fsdp
// CHECK:         module {
// CHECK-NEXT:    fsdp.state parameter @w : tensor<3x2xf32>{{$}}
// CHECK-NOT:     scalar
// CHECK-LABEL:   func.func @"train/step"
// CHECK-SAME:      (%[[W:[^:]+]]: tensor<3x2xf32> {fsdp.state = @w}, %[[X:[^:]+]]: tensor<3x2xf32> {fsdp.input = "x"})
// CHECK-SAME:      -> (tensor<f32> {fsdp.output = "loss"}, tensor<3x2xf32> {fsdp.gradient = @w}) attributes {fsdp.captured}
// CHECK-NEXT:      %[[C:.+]] = aten._to_copy(%[[W]], dtype = bf16) : (tensor<3x2xf32>) -> tensor<3x2xbf16>
// CHECK-NEXT:      %[[P:.+]] = aten.mul.Tensor(%[[C]], %[[X]])
// CHECK-NEXT:      %[[L:.+]] = aten.sum(%[[P]])
// CHECK-NEXT:      return %[[L]], %[[P]]
// CHECK:           func.func @"reference/step"
#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  fsdp.state parameter @w : tensor<3x2xf32> sharded <dim 0 over #shard> bucket "root"
  fsdp.state scalar @lr : tensor<f32>
  func.func @"train/step"(%w: tensor<2x2xf32> {fsdp.state = @w}, %lr: tensor<f32> {fsdp.state = @lr}, %x: tensor<3x2xf32> {fsdp.input = "x"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<f32> {fsdp.output = "grad_norm"}, tensor<2x2xf32> {fsdp.state = @w}) {
    %c = aten._to_copy(%w, dtype = bf16) : (tensor<2x2xf32>) -> tensor<2x2xbf16>
    %r = fsdp.replay %c : tensor<2x2xbf16>
    %f = fsdp.start all_gather "root"(%r, %c) dims [0, 0] over #shard on gather : tensor<2x2xbf16>, tensor<2x2xbf16> -> !fsdp.future<tensor<3x2xbf16>, tensor<3x2xbf16>>
    %0, %unread = fsdp.wait %f : !fsdp.future<tensor<3x2xbf16>, tensor<3x2xbf16>> -> tensor<3x2xbf16>, tensor<3x2xbf16>
    %p = aten.mul.Tensor(%0, %x) : (tensor<3x2xbf16>, tensor<3x2xf32>) -> tensor<3x2xf32>
    fsdp.free %0, %unread : tensor<3x2xbf16>, tensor<3x2xbf16>
    %l = aten.sum(%p) : (tensor<3x2xf32>) -> tensor<f32>
    %s = fsdp.reduce_scatter avg %p dim 0 over #shard of @w : tensor<3x2xf32> -> tensor<2x2xf32>
    %n = aten.linalg_vector_norm(%s) : (tensor<2x2xf32>) -> tensor<f32>
    %m = fsdp.all_reduce avg %l over #shard for metric : tensor<f32>
    %new = fsdp.update sgd params(%w) grads(%s) momentum_buffers() lr %lr momentum 0.0 weight_decay 0.0 : tensor<2x2xf32>
    return %m, %n, %new : tensor<f32>, tensor<f32>, tensor<2x2xf32>
  }
  func.func @"reference/step"(%x: tensor<f32> {fsdp.input = "x"}) -> (tensor<f32> {fsdp.output = "loss"}) attributes {fsdp.program = #fsdp.program<reference = true>, fsdp.captured} {
    return %x : tensor<f32>
  }
}

// -----

// A flat state falls apart into its members.

// CHECK-NOT:     flat
// CHECK:         fsdp.state parameter @v : tensor<2xf32> gradient <reduce bf16>{{$}}
// CHECK-NEXT:    fsdp.state parameter @u : tensor<4xf32> gradient <reduce bf16>{{$}}
// CHECK-LABEL:   func.func @"train/step"
// CHECK-SAME:      (%[[V:[^:]+]]: tensor<2xf32> {fsdp.state = @v}, %[[U:[^:]+]]: tensor<4xf32> {fsdp.state = @u})
// CHECK-SAME:      -> (tensor<4xbf16> {fsdp.output = "loss"}, tensor<2xf32> {fsdp.gradient = @v}, tensor<4xf32> {fsdp.gradient = @u}) attributes {fsdp.captured}
// CHECK-NEXT:      %[[VC:.+]] = aten._to_copy(%[[V]], dtype = bf16) : (tensor<2xf32>) -> tensor<2xbf16>
// CHECK-NEXT:      %[[UC:.+]] = aten._to_copy(%[[U]], dtype = bf16) : (tensor<4xf32>) -> tensor<4xbf16>
// CHECK-NEXT:      %[[N:.+]] = aten.neg(%[[UC]])
// CHECK-NEXT:      %[[GV:.+]] = aten._to_copy(%[[VC]], dtype = f32) : (tensor<2xbf16>) -> tensor<2xf32>
// CHECK-NEXT:      %[[GU:.+]] = aten._to_copy(%[[N]], dtype = f32) : (tensor<4xbf16>) -> tensor<4xf32>
// CHECK-NEXT:      return %[[N]], %[[GV]], %[[GU]]
#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  fsdp.state parameter @"b/flat" : tensor<8xf32> flat <over #shard> bucket "b" gradient <reduce bf16>
  fsdp.state parameter @v : tensor<2xf32> part <@"b/flat" at 0> bucket "b" gradient <reduce bf16>
  fsdp.state parameter @u : tensor<4xf32> part <@"b/flat" at 4> bucket "b" gradient <reduce bf16>
  func.func @"train/step"(%f: tensor<4xf32> {fsdp.state = @"b/flat"}) -> (tensor<4xbf16> {fsdp.output = "loss"}, tensor<4xf32> {fsdp.gradient = @"b/flat"}) {
    %c = aten._to_copy(%f, dtype = bf16) : (tensor<4xf32>) -> tensor<4xbf16>
    %start = fsdp.start all_gather "b"(%c) dims [0] over #shard on gather : tensor<4xbf16> -> !fsdp.future<tensor<8xbf16>>
    %full = fsdp.wait %start : !fsdp.future<tensor<8xbf16>> -> tensor<8xbf16>
    %v = fsdp.unpack %full at 0 : tensor<8xbf16> -> tensor<2xbf16>
    %u = fsdp.unpack %full at 4 : tensor<8xbf16> -> tensor<4xbf16>
    %n = aten.neg(%u) : (tensor<4xbf16>) -> tensor<4xbf16>
    %p = fsdp.pack(%v, %n) at [0, 4] of @"b/flat" : tensor<2xbf16>, tensor<4xbf16> -> tensor<8xbf16>
    %s = fsdp.reduce_scatter avg %p dim 0 over #shard of @"b/flat" : tensor<8xbf16> -> tensor<4xbf16>
    %g = aten._to_copy(%s, dtype = f32) : (tensor<4xbf16>) -> tensor<4xf32>
    return %n, %g : tensor<4xbf16>, tensor<4xf32>
  }
}
