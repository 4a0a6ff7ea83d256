// RUN: fsdp-opt %s --fsdp-offload-activations --split-input-file | FileCheck %s

// What forward computed and backward reads leaves behind its last use in forward
// and is back in front of its first one in backward, with views made anew. Small
// ones, inputs, parameters and what backward does not read stay.

// CHECK-LABEL: func.func @"train/step"
// CHECK:         aten.t(%{{.+}})
// CHECK:         %[[A:.+]] = aten.relu(%{{.+}}) : (tensor<32x32xf32>)
// CHECK-NEXT:    aten.t(%[[A]])
// CHECK-NEXT:    %[[S:.+]] = aten.sum(%[[A]])
// CHECK-NEXT:    %[[AH:.+]] = fsdp.copy %[[A]] to host : tensor<32x32xf32>
// CHECK-NEXT:    %[[B:.+]] = aten.relu(%[[S]])
// CHECK-NEXT:    aten.neg
// CHECK-NEXT:    %[[D:.+]] = aten.sigmoid
// CHECK-NEXT:    aten.add.Tensor
// CHECK-NEXT:    aten.mul.Tensor(%{{.+}}, %[[D]])
// CHECK-NEXT:    %[[DH:.+]] = fsdp.copy %[[D]] to host
// CHECK-NEXT:    aten.sum
// CHECK-NEXT:    aten.neg
// CHECK-NEXT:    %[[AD:.+]] = fsdp.copy %[[AH]] to device : tensor<32x32xf32>
// CHECK-NEXT:    %[[AT2:.+]] = aten.t(%[[AD]])
// CHECK-NEXT:    aten.mm(%[[AT2]], %{{.+}})
// CHECK-NEXT:    aten.mul.Tensor
// CHECK-NEXT:    %[[DD:.+]] = fsdp.copy %[[DH]] to device
// CHECK-NEXT:    aten.mul.Tensor(%{{.+}}, %[[DD]])
// CHECK-NEXT:    aten.mul.Tensor(%{{.+}}, %[[AD]])
// CHECK-NOT:     fsdp.copy
#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>, fsdp.offload = #fsdp.offload<activations = ["*"]>} {
  fsdp.state parameter @w : tensor<32x32xf32> sharded <dim 0 over #shard> bucket "a"
  func.func @"train/step"(%w: tensor<16x32xf32> {fsdp.state = @w}, %x: tensor<32x32xf32> {fsdp.input = "x"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<16x32xf32> {fsdp.gradient = @w}) {
    %full = fsdp.all_gather %w dim 0 over #shard : tensor<16x32xf32> -> tensor<32x32xf32>
    %wt = aten.t(%full) : (tensor<32x32xf32>) -> tensor<32x32xf32, #aten.strides<1, 32>>
    %m = aten.mm(%x, %wt) : (tensor<32x32xf32>, tensor<32x32xf32, #aten.strides<1, 32>>) -> tensor<32x32xf32>
    %a = aten.relu(%m) : (tensor<32x32xf32>) -> tensor<32x32xf32>
    %at = aten.t(%a) : (tensor<32x32xf32>) -> tensor<32x32xf32, #aten.strides<1, 32>>
    %s = aten.sum(%a) : (tensor<32x32xf32>) -> tensor<f32>
    %b = aten.relu(%s) : (tensor<f32>) -> tensor<f32>
    %c = aten.neg(%x) : (tensor<32x32xf32>) -> tensor<32x32xf32>
    %d = aten.sigmoid(%x) : (tensor<32x32xf32>) -> tensor<32x32xf32>
    %e = aten.add.Tensor(%b, %c) : (tensor<f32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %f = aten.mul.Tensor(%e, %d) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %loss = aten.sum(%f) : (tensor<32x32xf32>) -> tensor<f32>
    %one = aten.neg(%x) : (tensor<32x32xf32>) -> tensor<32x32xf32>
    %g = aten.mm(%at, %one) : (tensor<32x32xf32, #aten.strides<1, 32>>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %h = aten.mul.Tensor(%g, %wt) : (tensor<32x32xf32>, tensor<32x32xf32, #aten.strides<1, 32>>) -> tensor<32x32xf32>
    %i = aten.mul.Tensor(%h, %d) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %j = aten.mul.Tensor(%i, %a) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %k = aten.add.Tensor(%j, %b) : (tensor<32x32xf32>, tensor<f32>) -> tensor<32x32xf32>
    %r = fsdp.reduce_scatter avg %k dim 0 over #shard of @w : tensor<32x32xf32> -> tensor<16x32xf32>
    return %loss, %r : tensor<f32>, tensor<16x32xf32>
  }
}
