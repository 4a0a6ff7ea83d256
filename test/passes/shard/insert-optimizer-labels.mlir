// RUN: fsdp-opt %s --fsdp-annotate='with={optimizer<kind = sgd>}' --fsdp-insert-metrics --fsdp-insert-optimizer --fsdp-verify-sharded | FileCheck %s
// RUN: fsdp-opt %s --fsdp-annotate='with={optimizer<kind = sgd, max_grad_norm = 2.0>}' --fsdp-insert-metrics --fsdp-insert-optimizer --fsdp-verify-sharded | FileCheck %s --check-prefix=CLIP

// A loss that was multiplied by its share of labels: norm and gradients are divided by
// the mean share, which stays a metric, and no output. No update can be early.

// CHECK:      func.func @"train/step"
// CHECK-SAME: -> (tensor<f32> {fsdp.output = "loss"}, tensor<f32> {fsdp.output = "grad_norm"}, tensor<f32> {fsdp.metric = "loss/weight"}, tensor<2xf32> {fsdp.state = @w})
// CHECK:      %[[MEAN:.+]] = fsdp.all_reduce avg %{{.+}} over #shard for metric
// CHECK:      %[[N:.+]] = aten.sqrt
// CHECK-NEXT: %[[NORM:.+]] = aten.div.Tensor(%[[N]], %[[MEAN]])
// CHECK-NEXT: %[[NEW:.+]] = fsdp.update sgd {{.*}} grad_scale %[[MEAN]]
// CHECK:      return %{{.+}}, %[[NORM]], %[[MEAN]], %[[NEW]]

// CLIP:      %[[MEAN:.+]] = fsdp.all_reduce avg %{{.+}} over #shard for metric
// CLIP:      %[[NORM:.+]] = aten.div.Tensor(%{{.+}}, %[[MEAN]])
// CLIP:      %[[CLIPS:.+]] = aten.clamp_min
// CLIP-NEXT: %[[BY:.+]] = aten.mul.Tensor(%[[CLIPS]], %[[MEAN]])
// CLIP-NEXT: fsdp.update sgd {{.*}} grad_scale %[[BY]]

#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  fsdp.state parameter @w : tensor<4xf32> sharded <dim 0 over #shard> bucket "root"
  func.func @"train/step"(%w: tensor<2xf32> {fsdp.state = @w}, %x: tensor<f32> {fsdp.input = "x"}, %n: tensor<f32> {fsdp.input = "n"}, %g: tensor<4xf32> {fsdp.input = "g"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<f32> {fsdp.output = "loss/weight"}, tensor<2xf32> {fsdp.gradient = @w}) {
    %s = fsdp.reduce_scatter avg %g dim 0 over #shard of @w : tensor<4xf32> -> tensor<2xf32>
    return %x, %n, %s : tensor<f32>, tensor<f32>, tensor<2xf32>
  }
}
