// RUN: fsdp-opt %s --fsdp-annotate='with={optimizer<kind = adamw>}' --fsdp-insert-optimizer | FileCheck %s
// RUN: fsdp-opt %s --fsdp-annotate='with={optimizer<kind = sgd, groups = [#fsdp.param_group<params = ["*"], numbers = {weight_decay = 0.5}>]>}' --fsdp-assign-groups --fsdp-insert-optimizer | FileCheck %s --check-prefix=GROUP
// RUN: not fsdp-opt %s --fsdp-annotate='with={optimizer<groups = [#fsdp.param_group<params = ["b"], numbers = {weight_decay = 0.5}>]>}' --fsdp-assign-groups --fsdp-insert-optimizer 2>&1 | FileCheck %s --check-prefix=APART
// RUN: not fsdp-opt %s --fsdp-annotate='with={optimizer<groups = [#fsdp.param_group<params = ["f"], numbers = {weight_decay = 0.5}>]>}' --fsdp-assign-groups --fsdp-insert-optimizer 2>&1 | FileCheck %s --check-prefix=NAME

// A flat state is updated as a whole, and counts as cut in the norm. Its members
// have moments by name, which lie in the flat state's.

// CHECK:      fsdp.state optimizer @"f/exp_avg" of @f : tensor<8xf32> flat <over #shard>
// CHECK-NEXT: fsdp.state optimizer @"w/exp_avg" of @w : tensor<2x2xf32> part <@"f/exp_avg" at 0>
// CHECK-NEXT: fsdp.state optimizer @"b/exp_avg" of @b : tensor<3xf32> part <@"f/exp_avg" at 4>
// CHECK-NEXT: fsdp.state optimizer @"f/exp_avg_sq" of @f : tensor<8xf32> flat <over #shard>
// CHECK-NEXT: fsdp.state optimizer @"w/exp_avg_sq" of @w : tensor<2x2xf32> part <@"f/exp_avg_sq" at 0>
// CHECK-NEXT: fsdp.state optimizer @"b/exp_avg_sq" of @b : tensor<3xf32> part <@"f/exp_avg_sq" at 4>
// CHECK:      func.func @"train/step"(%[[F:.+]]: tensor<4xf32> {fsdp.state = @f}, %[[M:.+]]: tensor<4xf32> {fsdp.state = @"f/exp_avg"}, %[[V:.+]]: tensor<4xf32> {fsdp.state = @"f/exp_avg_sq"},
// CHECK:      %[[G:.+]] = fsdp.reduce_scatter
// CHECK:      aten._foreach_norm.Scalar([%[[G]]])
// CHECK:      fsdp.update adamw params(%[[F]]) grads(%[[G]]) exp_avgs(%[[M]]) exp_avg_sqs(%[[V]])

// Patterns are of the members' names.

// GROUP:      fsdp.update sgd params(%{{.+}}) {{.*}} weight_decay 5.000000e-01
// APART:      'fsdp.state' op is in another group of the optimizer than other members of 'f'; run fsdp-assign-groups before fsdp-flatten-buckets
// NAME:       the pattern 'f' of the optimizer's groups matches no parameter
#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  fsdp.state parameter @f : tensor<8xf32> flat <over #shard>
  fsdp.state parameter @w : tensor<2x2xf32> part <@f at 0>
  fsdp.state parameter @b : tensor<3xf32> part <@f at 4>
  func.func @"train/step"(%f: tensor<4xf32> {fsdp.state = @f}, %x: tensor<2x2xf32> {fsdp.input = "x"}, %y: tensor<3xf32> {fsdp.input = "y"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<4xf32> {fsdp.gradient = @f}) {
    %l = aten.sum(%x) : (tensor<2x2xf32>) -> tensor<f32>
    %p = fsdp.pack(%x, %y) at [0, 4] of @f : tensor<2x2xf32>, tensor<3xf32> -> tensor<8xf32>
    %g = fsdp.reduce_scatter avg %p dim 0 over #shard of @f : tensor<8xf32> -> tensor<4xf32>
    return %l, %g : tensor<f32>, tensor<4xf32>
  }
}
