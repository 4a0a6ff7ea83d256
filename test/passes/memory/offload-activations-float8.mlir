// RUN: fsdp-opt %s --fsdp-offload-activations | FileCheck %s

// What was cast to eight bits for a product is what backward reads, and waits on the
// host; a parameter that was cast for it is made anew in place of a copy.

// CHECK-LABEL: func.func @"train/step"
// CHECK:         %[[C:.+]] = fsdp.encode %{{.+}} by %{{.+}} : tensor<64x32xf32>
// CHECK-NEXT:    aten.mm(%[[C]],
// CHECK-NEXT:    %[[H:.+]] = fsdp.copy %[[C]] to host : tensor<64x32xf8E4M3FN>
// CHECK:         %[[D:.+]] = fsdp.copy %[[H]] to device : tensor<64x32xf8E4M3FN>
// CHECK-NEXT:    aten.t(%[[D]])
// CHECK-NOT:     fsdp.copy
#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>, fsdp.offload = #fsdp.offload<activations = ["*"]>} {
  fsdp.state parameter @w : tensor<64x32xf32> sharded <dim 0 over #shard> bucket "a"
  func.func @"train/step"(%w: tensor<32x32xf32> {fsdp.state = @w}, %x: tensor<64x32xf32> {fsdp.input = "x"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<32x32xf32> {fsdp.gradient = @w}) {
    %full = fsdp.all_gather %w dim 0 over #shard : tensor<32x32xf32> -> tensor<64x32xf32>
    %half = aten._to_copy(%full, dtype = bf16) : (tensor<64x32xf32>) -> tensor<64x32xbf16>
    %mw = fsdp.amax %half : tensor<64x32xbf16> -> tensor<f32>
    %sw = fsdp.scale %mw to f8E4M3FN least 1.000000e-12 : tensor<f32>
    %cw = fsdp.encode %half by %sw : tensor<64x32xbf16>, tensor<f32> -> tensor<64x32xf8E4M3FN>
    %a = aten.relu(%x) : (tensor<64x32xf32>) -> tensor<64x32xf32>
    %mx = fsdp.amax %a : tensor<64x32xf32> -> tensor<f32>
    %sx = fsdp.scale %mx to f8E4M3FN least 1.000000e-12 : tensor<f32>
    %cx = fsdp.encode %a by %sx : tensor<64x32xf32>, tensor<f32> -> tensor<64x32xf8E4M3FN>
    %y = aten.mm(%cx, %cw) : (tensor<64x32xf8E4M3FN>, tensor<64x32xf8E4M3FN>) -> tensor<64x32xf32>
    %loss = aten.sum(%y) : (tensor<64x32xf32>) -> tensor<f32>
    %one = aten.neg(%x) : (tensor<64x32xf32>) -> tensor<64x32xf32>
    %ct = aten.t(%cx) : (tensor<64x32xf8E4M3FN>) -> tensor<32x64xf8E4M3FN, #aten.strides<1, 32>>
    %p = aten.mm(%ct, %one) : (tensor<32x64xf8E4M3FN, #aten.strides<1, 32>>, tensor<64x32xf32>) -> tensor<32x32xf32>
    %g = aten.mul.Tensor(%p, %cw) : (tensor<32x32xf32>, tensor<64x32xf8E4M3FN>) -> tensor<64x32xf32>
    %r = fsdp.reduce_scatter avg %g dim 0 over #shard of @w : tensor<64x32xf32> -> tensor<32x32xf32>
    return %loss, %r : tensor<f32>, tensor<32x32xf32>
  }
}
