// RUN: fsdp-opt %s --fsdp-annotate='with={step<grains = 8>, optimizer<kind = sgd, max_grad_norm = 1.0>}' --fsdp-insert-optimizer | FileCheck %s
// RUN: fsdp-opt %s --fsdp-annotate='with={step<grains = 8>, optimizer<kind = sgd, norm_order = 0x7FF0000000000000>}' --fsdp-insert-optimizer | FileCheck %s --check-prefix=INF

// The loss is the mean of the grains. The norm is the root of an exact sum: that of the
// shards over the ranks of a replica, that of whole gradients once.

#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<replicate = 2, shard = 2>} {
  fsdp.state parameter @w : tensor<4xf32> sharded <dim 0 over #shard>
  fsdp.state parameter @v : tensor<f32>
  // CHECK-LABEL: func.func @"train/step"
  // CHECK-DAG: %[[L:.+]] = fsdp.all_reduce tree %{{.+}} post 8.{{.+}} over #world for metric : tensor<f32>
  // CHECK-DAG: %[[S:.+]] = fsdp.square_sum(%{{.+}}) : (tensor<2xf32>) -> tensor<16xi64>
  // CHECK-DAG: %[[V:.+]] = fsdp.square_sum(%{{.+}}) : (tensor<f32>) -> tensor<16xi64>
  // CHECK:     %[[A:.+]] = fsdp.all_reduce sum %[[S]] over {{.+}} for metric : tensor<16xi64>
  // CHECK:     %[[N:.+]] = fsdp.square_root(%[[A]], %[[V]]) : tensor<16xi64>, tensor<16xi64> -> tensor<f32>
  // CHECK-NOT: foreach_norm
  // INF-NOT:   square_sum
  // INF:       fsdp.all_reduce max
  func.func @"train/step"(%w: tensor<2xf32> {fsdp.state = @w}, %v: tensor<f32> {fsdp.state = @v}, %l: tensor<f32> {fsdp.input = "l"}, %g: tensor<2xf32> {fsdp.input = "g"}, %h: tensor<f32> {fsdp.input = "h"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<2xf32> {fsdp.gradient = @w}, tensor<f32> {fsdp.gradient = @v}) {
    return %l, %g, %h : tensor<f32>, tensor<2xf32>, tensor<f32>
  }
}
