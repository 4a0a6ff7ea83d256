// RUN: fsdp-opt %s --fsdp-annotate='with={optimizer<kind = sgd, lr = 0.1, max_grad_norm = 1.0>, reported_norms<gradients = true>}' --fsdp-insert-optimizer --split-input-file --verify-diagnostics | FileCheck %s
// RUN: fsdp-opt %s --fsdp-annotate='with={optimizer<kind = sgd, lr = 0.1>, reported_norms<weights = true, updates = true, by_module = true>}' --fsdp-insert-optimizer --split-input-file --verify-diagnostics | FileCheck %s --check-prefix=MODULE
// RUN: fsdp-opt %s --fsdp-annotate='with={optimizer<kind = sgd, lr = 0.1, max_grad_norm = 1.0>}' --fsdp-insert-optimizer --split-input-file | FileCheck %s --check-prefix=NONE

// Norms of gradients are those that clipping makes, taken once. What several ranks
// of a replica hold counts once: each square is multiplied by the six ranks of a
// replica, divided by those that hold it, and the mean taken over all twelve.

// CHECK-LABEL:  func.func @"train/step"
// CHECK-SAME:   tensor<3xf32> {fsdp.norms_of = ["grad/layers.0.w", "grad/layers.0.n", "grad/layers.1.w"]}
// CHECK:        %[[NORMS:.+]]:3 = aten._foreach_norm.Scalar
// CHECK-NOT:    aten._foreach_norm
// CHECK:        %[[ALL:.+]] = aten.stack({{\[?}}%[[NORMS]]#0, %[[NORMS]]#1, %[[NORMS]]#2
// CHECK:        %[[SQUARES:.+]] = aten.mul.Tensor(%[[ALL]], %[[ALL]])
// CHECK:        %[[PARTS:.+]] = fsdp.constant dense<[6.000000e+00, 3.000000e+00, 6.000000e+00]>
// CHECK-NEXT:   %[[TERMS:.+]] = aten.mul.Tensor(%[[SQUARES]], %[[PARTS]])
// CHECK-NEXT:   %[[SUMS:.+]] = fsdp.all_reduce avg %[[TERMS]] over #{{.+}} for metric : tensor<3xf32>
// CHECK:        %[[NORM:.+]] = aten.sqrt
// CHECK:        return %{{.+}}, %{{.+}}, {{.*}}%[[NORM]]

// Of the old values there are copies in front of the update.
// MODULE-LABEL: func.func @"train/step"
// MODULE-SAME:  tensor<2xf32> {fsdp.norms_of = ["weight/layers.0", "weight/layers.1"]}
// MODULE-SAME:  tensor<2xf32> {fsdp.norms_of = ["update/layers.0", "update/layers.1"]}
// MODULE:       %[[OLD:.+]] = aten.clone(%arg0
// MODULE:       %[[NEW:[a-z0-9.]+]], %{{.+}}, %{{.+}} = fsdp.update sgd
// MODULE:       aten.sub.Tensor(%[[NEW]], %[[OLD]])
// MODULE:       fsdp.all_reduce avg %{{.+}} over #{{.+}} for metric : tensor<4xf32>

// NONE-LABEL:   func.func @"train/step"
// NONE-NOT:     norms_of
// NONE-NOT:     aten.sub
#shard = #fsdp.group<"shard", 3 : 2>
#tp = #fsdp.group<"tp", 2>
module attributes {fsdp.mesh = #fsdp.mesh<replicate = 2, shard = 3, tp = 2>} {
  fsdp.state parameter @"layers.0.w" : tensor<6xf32> split <dim 0 over #tp> sharded <dim 0 over #shard>
  fsdp.state parameter @"layers.0.n" : tensor<6xf32> sharded <dim 0 over #shard>
  fsdp.state parameter @"layers.1.w" : tensor<6xf32> split <dim 0 over #tp> sharded <dim 0 over #shard>
  func.func @"train/step"(%w: tensor<2xf32> {fsdp.state = @"layers.0.w"}, %n: tensor<2xf32> {fsdp.state = @"layers.0.n"}, %v: tensor<2xf32> {fsdp.state = @"layers.1.w"}, %x: tensor<f32> {fsdp.input = "x"}, %gw: tensor<2xf32> {fsdp.input = "gw"}, %gn: tensor<2xf32> {fsdp.input = "gn"}, %gv: tensor<2xf32> {fsdp.input = "gv"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<2xf32> {fsdp.gradient = @"layers.0.w"}, tensor<2xf32> {fsdp.gradient = @"layers.0.n"}, tensor<2xf32> {fsdp.gradient = @"layers.1.w"}) {
    %l = aten.neg(%x) : (tensor<f32>) -> tensor<f32>
    return %l, %gw, %gn, %gv : tensor<f32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
  }
}
