// RUN: fsdp-opt %s --fsdp-annotate='with={optimizer<kind = sgd, in_backward = true>}' --fsdp-insert-optimizer | FileCheck %s --check-prefixes=CHECK,EARLY
// RUN: fsdp-opt %s --fsdp-annotate='with={optimizer<kind = sgd, in_backward = true, max_grad_norm = 1.0>}' --fsdp-insert-optimizer | FileCheck %s --check-prefixes=CHECK,LATE
// RUN: fsdp-opt %s --fsdp-annotate='with={optimizer<kind = sgd, in_backward = true>, on_nonfinite<skip>}' --fsdp-insert-optimizer | FileCheck %s --check-prefixes=CHECK,LATE
// RUN: fsdp-opt %s --fsdp-annotate='with={optimizer<kind = sgd>}' --fsdp-insert-optimizer | FileCheck %s --check-prefixes=CHECK,LATE
// RUN: fsdp-opt %s --fsdp-annotate='with={optimizer<kind = sgd, in_backward = true>}' --fsdp-insert-optimizer --fsdp-bucket-collectives --fsdp-schedule-collectives | FileCheck %s --check-prefix=SCHEDULED

// Bucket b is updated behind the gradient of a, which its own reduction travels
// beside; bucket c, whose parameter backward reads once more, behind that read. What
// is known of the norm is taken in front of each.

// CHECK-LABEL: func.func @"train/step"
// EARLY:       %[[C:.+]] = fsdp.reduce_scatter avg %{{.+}} of @c
// EARLY-NEXT:  %[[B:.+]] = fsdp.reduce_scatter avg %{{.+}} of @b
// EARLY-NEXT:  %[[R:.+]] = fsdp.replay
// EARLY-NEXT:  fsdp.all_gather %[[R]]
// EARLY-NEXT:  aten.mul.Tensor
// EARLY-NEXT:  aten._foreach_norm.Scalar({{.*}}%[[C]]
// EARLY:       fsdp.update sgd params(%{{[^)]+}}) grads(%[[C]])
// EARLY:       %[[A:.+]] = fsdp.reduce_scatter avg %{{.+}} of @a
// EARLY-NEXT:  aten._foreach_norm.Scalar({{.*}}%[[B]]
// EARLY:       fsdp.update sgd params(%{{[^)]+}}) grads(%[[B]])
// EARLY-NEXT:  aten._foreach_norm.Scalar({{.*}}%[[A]]
// EARLY:       fsdp.update sgd params(%{{[^)]+}}) grads(%[[A]])
// EARLY:       aten.stack
// EARLY:       fsdp.all_reduce avg
// EARLY-NOT:   fsdp.update sgd

// LATE:        fsdp.reduce_scatter avg %{{.+}} of @a
// LATE:        aten._foreach_norm.Scalar
// LATE:        fsdp.all_reduce avg
// LATE:        fsdp.update sgd params(%{{[^,]+}}, %{{[^,]+}}, %{{[^)]+}})
// LATE-NOT:    fsdp.update sgd
// CHECK:       return

// The update waits for its own reduction alone, when the next one goes out.
// SCHEDULED:       fsdp.start reduce_scatter avg "b"
// SCHEDULED:       fsdp.start reduce_scatter avg "a"
// SCHEDULED:       fsdp.wait
// SCHEDULED:       fsdp.update sgd
// SCHEDULED:       fsdp.wait
// SCHEDULED:       fsdp.update sgd
#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  fsdp.state parameter @a : tensor<4xf32> sharded <dim 0 over #shard> bucket "a"
  fsdp.state parameter @b : tensor<4xf32> sharded <dim 0 over #shard> bucket "b"
  fsdp.state parameter @c : tensor<4xf32> sharded <dim 0 over #shard> bucket "c"
  func.func @"train/step"(%a: tensor<2xf32> {fsdp.state = @a}, %b: tensor<2xf32> {fsdp.state = @b}, %c: tensor<2xf32> {fsdp.state = @c}, %x: tensor<4xf32> {fsdp.input = "x"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<2xf32> {fsdp.gradient = @a}, tensor<2xf32> {fsdp.gradient = @b}, tensor<2xf32> {fsdp.gradient = @c}) {
    %af = fsdp.all_gather %a dim 0 over #shard : tensor<2xf32> -> tensor<4xf32>
    %bf = fsdp.all_gather %b dim 0 over #shard : tensor<2xf32> -> tensor<4xf32>
    %cf = fsdp.all_gather %c dim 0 over #shard : tensor<2xf32> -> tensor<4xf32>
    %y = aten.mul.Tensor(%af, %bf) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %z = aten.mul.Tensor(%y, %cf) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %l = aten.sum(%z) : (tensor<4xf32>) -> tensor<f32>
    %gc = aten.neg(%y) : (tensor<4xf32>) -> tensor<4xf32>
    %sc = fsdp.reduce_scatter avg %gc dim 0 over #shard of @c : tensor<4xf32> -> tensor<2xf32>
    %sb = fsdp.reduce_scatter avg %af dim 0 over #shard of @b : tensor<4xf32> -> tensor<2xf32>
    %rc = fsdp.replay %c : tensor<2xf32>
    %c2 = fsdp.all_gather %rc dim 0 over #shard : tensor<2xf32> -> tensor<4xf32>
    %ga = aten.mul.Tensor(%bf, %c2) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %sa = fsdp.reduce_scatter avg %ga dim 0 over #shard of @a : tensor<4xf32> -> tensor<2xf32>
    return %l, %sa, %sb, %sc : tensor<f32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
  }
}
