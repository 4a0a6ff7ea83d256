// RUN: fsdp-opt %s --fsdp-offload-states --split-input-file --verify-diagnostics | FileCheck %s

// With `params` a shard is copied to the device in front of each gather and of
// the cast there, in its second life anew; reduced gradients are copied to the
// host, which updates. Numbers of the optimizer lie there; what gradients are
// divided by is copied there. The norm of each bucket's gradients is computed
// before they leave.

// CHECK:       fsdp.state parameter @a.w : tensor<4xf32> sharded <dim 0 over #shard> bucket "a" memory host
// CHECK:       fsdp.state parameter @b.w : tensor<4xf32> sharded <dim 0 over #shard> bucket "b" memory host
// CHECK:       fsdp.state buffer @c : tensor<4xf32>{{$}}
// CHECK:       fsdp.state optimizer @"a.w/momentum_buffer" {{.*}} memory host
// CHECK:       fsdp.state learning_rate @"optimizer/lr" {{.*}} memory host
// CHECK-LABEL: func.func @"train/step"
// CHECK-SAME:    %[[A:[^:]+]]: tensor<2xf32> {fsdp.state = @a.w}, %[[B:[^:]+]]: tensor<2xf32> {fsdp.state = @b.w}
// CHECK:         %[[AD:.+]] = fsdp.copy %[[A]] to device of @a.w
// CHECK-NEXT:    %[[AH:.+]] = aten._to_copy(%[[AD]], dtype = bf16)
// CHECK-NEXT:    fsdp.all_gather %[[AH]]
// CHECK:         %[[BD:.+]] = fsdp.copy %[[B]] to device of @b.w
// CHECK-NEXT:    fsdp.all_gather %[[BD]]
// CHECK:         %[[AR:.+]] = fsdp.replay %[[A]]
// CHECK-NEXT:    %[[AD2:.+]] = fsdp.copy %[[AR]] to device of @a.w
// CHECK-NEXT:    %[[AH2:.+]] = aten._to_copy(%[[AD2]], dtype = bf16)
// CHECK-NEXT:    fsdp.all_gather %[[AH2]]
// CHECK:         %[[GB:.+]] = fsdp.reduce_scatter avg {{.*}} of @b.w
// CHECK-NEXT:    %[[NB:.+]] = aten._foreach_norm.Scalar([%[[GB]]]
// CHECK-NEXT:    %[[GBH:.+]] = fsdp.copy %[[GB]] to host of @b.w
// CHECK:         %[[GA:.+]] = fsdp.reduce_scatter avg {{.*}} of @a.w
// CHECK-NEXT:    %[[NA:.+]] = aten._foreach_norm.Scalar([%[[GA]]]
// CHECK-NEXT:    %[[GAH:.+]] = fsdp.copy %[[GA]] to host of @a.w
// CHECK:         %[[S:.+]] = aten.stack([%[[NA]], %[[NB]]]
// CHECK:         %[[DIV:.+]] = aten.clamp_min
// CHECK-NEXT:    %[[DIVH:.+]] = fsdp.copy %[[DIV]] to host :
// CHECK:         %[[AN:[^ ,]+]], %[[BN:[^ ,]+]], %[[MAN:[^ ,]+]], %[[MBN:[^ ,]+]] = fsdp.update sgd params(%[[A]], %[[B]]) grads(%[[GAH]], %[[GBH]]) {{.*}} grad_scale %[[DIVH]]
// CHECK:         return {{.*}}, %[[AN]], %[[BN]], %[[MAN]], %[[MBN]]
#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>, fsdp.offload = #fsdp.offload<params = true>} {
  fsdp.state parameter @a.w : tensor<4xf32> sharded <dim 0 over #shard> bucket "a"
  fsdp.state parameter @b.w : tensor<4xf32> sharded <dim 0 over #shard> bucket "b"
  fsdp.state buffer @c : tensor<4xf32>
  fsdp.state optimizer @"a.w/momentum_buffer" of @a.w : tensor<4xf32> sharded <dim 0 over #shard>
  fsdp.state optimizer @"b.w/momentum_buffer" of @b.w : tensor<4xf32> sharded <dim 0 over #shard>
  fsdp.state learning_rate @"optimizer/lr" : tensor<f32> init 1.0e-3 : f32
  func.func @"train/step"(%a: tensor<2xf32> {fsdp.state = @a.w}, %b: tensor<2xf32> {fsdp.state = @b.w}, %c: tensor<4xf32> {fsdp.state = @c},
      %ma: tensor<2xf32> {fsdp.state = @"a.w/momentum_buffer"}, %mb: tensor<2xf32> {fsdp.state = @"b.w/momentum_buffer"}, %lr: tensor<f32> {fsdp.state = @"optimizer/lr"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<f32> {fsdp.output = "grad_norm"}, tensor<2xf32> {fsdp.state = @a.w}, tensor<2xf32> {fsdp.state = @b.w},
          tensor<2xf32> {fsdp.state = @"a.w/momentum_buffer"}, tensor<2xf32> {fsdp.state = @"b.w/momentum_buffer"}) {
    %ah = aten._to_copy(%a, dtype = bf16) : (tensor<2xf32>) -> tensor<2xbf16>
    %af = fsdp.all_gather %ah dim 0 over #shard : tensor<2xbf16> -> tensor<4xbf16>
    %x = aten._to_copy(%af, dtype = f32) : (tensor<4xbf16>) -> tensor<4xf32>
    %bf = fsdp.all_gather %b dim 0 over #shard : tensor<2xf32> -> tensor<4xf32>
    %y = aten.mul.Tensor(%x, %bf) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %z = aten.mul.Tensor(%y, %c) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %loss = aten.sum(%z) : (tensor<4xf32>) -> tensor<f32>
    %ar = fsdp.replay %ah : tensor<2xbf16>
    %ag = fsdp.all_gather %ar dim 0 over #shard : tensor<2xbf16> -> tensor<4xbf16>
    %aw = aten._to_copy(%ag, dtype = f32) : (tensor<4xbf16>) -> tensor<4xf32>
    %gb = aten.mul.Tensor(%aw, %c) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %rb = fsdp.reduce_scatter avg %gb dim 0 over #shard of @b.w : tensor<4xf32> -> tensor<2xf32>
    %ga = aten.mul.Tensor(%bf, %c) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %ra = fsdp.reduce_scatter avg %ga dim 0 over #shard of @a.w : tensor<4xf32> -> tensor<2xf32>
    %n:2 = aten._foreach_norm.Scalar([%ra, %rb]) : (tensor<2xf32>, tensor<2xf32>) -> (tensor<f32>, tensor<f32>)
    %s = aten.stack([%n#0, %n#1]) : (tensor<f32>, tensor<f32>) -> tensor<2xf32>
    %t = aten.sum(%s) : (tensor<2xf32>) -> tensor<f32>
    %norm = fsdp.all_reduce avg %t over #shard for metric : tensor<f32>
    %clip = aten.clamp_min(%norm, min = 1.0) : (tensor<f32>) -> tensor<f32>
    %new:4 = fsdp.update sgd params(%a, %b) grads(%ra, %rb) momentum_buffers(%ma, %mb) lr %lr grad_scale %clip momentum 9.0e-01 weight_decay 0.0
        : tensor<2xf32>, tensor<2xf32>
    return %loss, %norm, %new#0, %new#1, %new#2, %new#3 : tensor<f32>, tensor<f32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
  }
}
