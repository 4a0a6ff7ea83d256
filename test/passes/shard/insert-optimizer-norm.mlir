// RUN: fsdp-opt %s --fsdp-annotate='with={optimizer<kind = sgd, norm_order = 1.0, max_grad_norm = 2.0>}' --fsdp-insert-optimizer | FileCheck %s --check-prefix=ONE
// RUN: fsdp-opt %s --fsdp-annotate='with={optimizer<kind = sgd, norm_order = 0x7FF0000000000000, max_grad_norm = 2.0>}' --fsdp-insert-optimizer | FileCheck %s --check-prefix=INF
// RUN: fsdp-opt %s --fsdp-annotate='with={optimizer<kind = sgd>}' --fsdp-insert-optimizer | FileCheck %s --check-prefix=TWO
// RUN: not fsdp-opt %s --fsdp-annotate='with={optimizer<norm_order = 3.0>}' --fsdp-insert-optimizer 2>&1 | FileCheck %s --check-prefix=ORDER

// ORDER: expected a norm of order 1, 2 or inf, found 3

// @w is sharded over three ranks, @s is replicated: each rank has all of its
// gradient, of which it adds a third.

// TWO:      %[[SW:.+]] = fsdp.reduce_scatter {{.*}} of @w
// TWO-NEXT: %[[SS:.+]] = fsdp.all_reduce {{.*}} of @s
// TWO:      %[[A:.+]] = aten.sum
// TWO:      aten._foreach_norm.Scalar([%[[SS]], %{{[^,]+}}])
// TWO:      %[[B:.+]] = aten.sum
// TWO-NEXT: %[[C:.+]] = aten.div.Scalar(%[[B]], other = 3.000000e+00)
// TWO-NEXT: %[[T:.+]] = aten.add.Tensor(%[[A]], %[[C]])
// TWO-NEXT: fsdp.all_reduce avg
// TWO-NEXT: %[[R:.+]] = fsdp.all_reduce avg %[[T]]
// TWO-NEXT: %[[N2:.+]] = aten.mul.Scalar(%[[R]], other = 3.000000e+00)
// TWO-NEXT: aten.sqrt(%[[N2]])

// ONE:      aten._foreach_norm.Scalar([{{.*}}], ord = 1.000000e+00
// ONE-NEXT: aten.stack
// ONE-NEXT: aten.sum
// ONE:      fsdp.all_reduce avg
// ONE-NEXT: %[[R:.+]] = fsdp.all_reduce avg
// ONE-NEXT: %[[N:.+]] = aten.mul.Scalar(%[[R]], other = 3.000000e+00)
// ONE-NEXT: %[[ABOVE:.+]] = aten.add.Scalar(%[[N]], other = 9.9999999999999995E-7)
// ONE-NEXT: aten.div.Scalar(%[[ABOVE]], other = 2.000000e+00)
// ONE-NOT:  aten.sqrt

// For the greatest it does not matter who has what; what has no element has no
// greatest.
// INF:      aten._foreach_norm.Scalar([%{{[^,]+}}, %{{[^,]+}}], ord = 0x7FF0000000000000
// INF-NEXT: %[[STACK:.+]] = aten.stack
// INF-NEXT: %[[M:.+]] = aten.max(%[[STACK]])
// INF-NEXT: fsdp.all_reduce avg %{{.+}} over #shard for metric
// INF-NEXT: %[[N:.+]] = fsdp.all_reduce max %[[M]] over #shard for metric
// INF-NEXT: aten.add.Scalar(%[[N]], other = 9.9999999999999995E-7)

#shard = #fsdp.group<"shard", 3>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 3>} {
  fsdp.state parameter @w : tensor<6xf32> sharded <dim 0 over #shard> bucket "root"
  fsdp.state parameter @s : tensor<f32> bucket "root"
  fsdp.state parameter @empty : tensor<0xf32> bucket "root"
  func.func @"train/step"(%w: tensor<2xf32> {fsdp.state = @w}, %s: tensor<f32> {fsdp.state = @s}, %e: tensor<0xf32> {fsdp.state = @empty},
                          %x: tensor<f32> {fsdp.input = "x"}, %gw: tensor<6xf32> {fsdp.input = "gw"}, %gs: tensor<f32> {fsdp.input = "gs"}, %ge: tensor<0xf32> {fsdp.input = "ge"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<2xf32> {fsdp.gradient = @w}, tensor<f32> {fsdp.gradient = @s}, tensor<0xf32> {fsdp.gradient = @empty}) {
    %sw = fsdp.reduce_scatter avg %gw dim 0 over #shard of @w : tensor<6xf32> -> tensor<2xf32>
    %ss = fsdp.all_reduce avg %gs over #shard of @s : tensor<f32>
    %se = fsdp.all_reduce avg %ge over #shard of @empty : tensor<0xf32>
    return %x, %sw, %ss, %se : tensor<f32>, tensor<2xf32>, tensor<f32>, tensor<0xf32>
  }
}
