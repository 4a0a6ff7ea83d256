// RUN: fsdp-opt %s --fsdp-annotate='with={optimizer<kind = sgd>}' --fsdp-insert-optimizer --fsdp-verify-sharded | FileCheck %s
// RUN: fsdp-opt %s --fsdp-annotate='with={optimizer<kind = sgd, max_grad_norm = 2.0>}' --fsdp-insert-optimizer --fsdp-verify-sharded | FileCheck %s --check-prefix=CLIP

// What reductions leave divides the norm, and the gradients together with the
// clipping.

// CHECK:      %[[N:.+]] = aten.sqrt
// CHECK-NEXT: %[[NORM:.+]] = aten.div.Scalar(%[[N]], other = 2.000000e+00)
// CHECK-NEXT: %[[BY:.+]] = fsdp.constant dense<2.000000e+00> : tensor<f32>
// CHECK-NEXT: fsdp.update sgd {{.*}} grad_scale %[[BY]]
// CHECK:      return %{{.+}}, %[[NORM]]

// CLIP:       %[[N:.+]] = aten.sqrt
// CLIP-NEXT:  %[[NORM:.+]] = aten.div.Scalar(%[[N]], other = 2.000000e+00)
// CLIP-NEXT:  aten.add.Scalar(%[[NORM]], other = 9.9999999999999995E-7)
// CLIP:       %[[CLIP:.+]] = aten.clamp_min
// CLIP-NEXT:  %[[BY:.+]] = aten.mul.Scalar(%[[CLIP]], other = 2.000000e+00)
// CLIP-NEXT:  fsdp.update sgd {{.*}} grad_scale %[[BY]]
// CLIP:       return %{{.+}}, %[[NORM]]
#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>, fsdp.optimizer_divisor = 2.0 : f64} {
  fsdp.state parameter @w : tensor<4xf32> sharded <dim 0 over #shard> bucket "root"
  func.func @"train/step"(%w: tensor<2xf32> {fsdp.state = @w}, %x: tensor<f32> {fsdp.input = "x"}, %g: tensor<4xf32> {fsdp.input = "g"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<2xf32> {fsdp.gradient = @w}) {
    %s = fsdp.reduce_scatter sum %g dim 0 over #shard of @w : tensor<4xf32> -> tensor<2xf32>
    return %x, %s : tensor<f32>, tensor<2xf32>
  }
}
