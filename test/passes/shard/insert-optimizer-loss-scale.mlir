// RUN: fsdp-opt %s --fsdp-annotate='with={optimizer<kind = sgd>, loss_scale<interval = 100>, on_nonfinite<skip>}' --fsdp-insert-optimizer --fsdp-verify-sharded | FileCheck %s
// RUN: fsdp-opt %s --fsdp-annotate='with={optimizer<kind = sgd, max_grad_norm = 2.0>}' --fsdp-insert-optimizer --fsdp-verify-sharded | FileCheck %s --check-prefix=FIXED
// RUN: not fsdp-opt %s --fsdp-annotate='with={optimizer<kind = sgd>, loss_scale<interval = 100>}' --fsdp-insert-optimizer 2>&1 | FileCheck %s --check-prefix=POLICY
// RUN: not fsdp-opt %s --fsdp-annotate='with={optimizer<kind = sgd>, loss_scale<interval = 100, growth = 1.0>, on_nonfinite<skip>}' --fsdp-insert-optimizer 2>&1 | FileCheck %s --check-prefix=GROWTH

// POLICY: expected '#fsdp.on_nonfinite<skip>' with a loss scale that changes
// GROWTH: expected a loss scale that grows by a factor above 1 and is cut by one between 0 and 1, found 1

// Norm and gradients are divided by the scale; it is cut where the update is left
// out, and grown after so many in a row.

// CHECK:      fsdp.state loss_scale @"loss/scale" : tensor<f32> init 6.553600e+04 : f32
// CHECK:      fsdp.state loss_growth @"loss/growth" : tensor<f32> init 0.000000e+00 : f32
// CHECK:      %[[S:[^:]+]]: tensor<f32> {fsdp.state = @"loss/scale"}
// CHECK-SAME: %[[C:[^:]+]]: tensor<f32> {fsdp.state = @"loss/growth"}
// CHECK-SAME: tensor<f32> {fsdp.metric = "loss_scale"}, tensor<f32> {fsdp.state = @"loss/scale"}, tensor<f32> {fsdp.state = @"loss/growth"}
// CHECK:      %[[N:.+]] = aten.sqrt
// CHECK-NEXT: %[[NORM:.+]] = aten.div.Tensor(%[[N]], %[[S]])
// CHECK:      %[[INF:.+]] = aten._to_copy
// CHECK:      fsdp.update sgd {{.*}} grad_scale %[[S]] found_inf %[[INF]]
// CHECK-NEXT: %[[USED:.+]] = aten.clone(%[[S]]
// CHECK-NEXT: %[[NEXT:.+]] = aten.add.Scalar(%[[C]], other = 1.000000e+00)
// CHECK-NEXT: %[[FINITE:.+]] = aten.rsub.Scalar(%[[INF]], other = 1.000000e+00)
// CHECK-NEXT: %[[UPDATES:.+]] = aten.mul.Tensor(%[[NEXT]], %[[FINITE]])
// CHECK-NEXT: aten.ge.Scalar(%[[UPDATES]], other = 1.000000e+02)
// CHECK:      aten.mul.Scalar(%[[INF]], other = -5.000000e-01)
// CHECK:      %[[NEW:.+]] = aten.clamp_max(
// CHECK:      %[[COUNT:.+]] = aten.mul.Tensor(%[[UPDATES]]
// CHECK:      return %{{.+}}, %[[NORM]], %{{.+}}, %[[USED]], %[[NEW]], %[[COUNT]]

// FIXED-NOT:  loss/growth
// FIXED:      %[[S:[^:]+]]: tensor<f32> {fsdp.state = @"loss/scale"}
// FIXED-NOT:  fsdp.metric
// FIXED:      %[[CLIP:.+]] = aten.clamp_min
// FIXED-NEXT: %[[BY:.+]] = aten.mul.Tensor(%[[CLIP]], %[[S]])
// FIXED-NEXT: fsdp.update sgd {{.*}} grad_scale %[[BY]]
#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  fsdp.state parameter @w : tensor<4xf32> sharded <dim 0 over #shard> bucket "root"
  fsdp.state loss_scale @"loss/scale" : tensor<f32> init 65536.0 : f32
  func.func @"train/step"(%w: tensor<2xf32> {fsdp.state = @w}, %scale: tensor<f32> {fsdp.state = @"loss/scale"}, %x: tensor<f32> {fsdp.input = "x"}, %g: tensor<4xf32> {fsdp.input = "g"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<2xf32> {fsdp.gradient = @w}) {
    %s = fsdp.reduce_scatter avg %g dim 0 over #shard of @w : tensor<4xf32> -> tensor<2xf32>
    return %x, %s : tensor<f32>, tensor<2xf32>
  }
}
