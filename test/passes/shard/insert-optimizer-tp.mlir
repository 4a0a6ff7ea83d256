// RUN: fsdp-opt %s --fsdp-annotate='with={optimizer<kind = adamw, lr = 0.1, max_grad_norm = 1.0>}' --fsdp-insert-optimizer | FileCheck %s
// RUN: fsdp-opt %s --fsdp-annotate='with={optimizer<kind = adamw, lr = 0.1, norm_order = 0x7FF0000000000000>}' --fsdp-insert-optimizer | FileCheck %s --check-prefix=INF

// Of a replica of six ranks one holds each element of @w, the two along 'tp' each of
// @n, the three along 'shard' each of @i and all of them @s: each adds its part, and
// one exchange over all ranks is enough. What is kept of a split parameter is split.

// CHECK-DAG:    #[[TP:.+]] = #fsdp.group<"tp", 2>
// CHECK:        fsdp.state optimizer @"w/exp_avg" of @w : tensor<6xf32> split <dim 0 over #[[TP]]> sharded
// CHECK:        fsdp.state optimizer @"n/exp_avg" of @n : tensor<6xf32> sharded
// CHECK:        fsdp.state optimizer @"i/exp_avg" of @i : tensor<6xf32> split <dim 0 over #[[TP]]>{{$}}

// CHECK-LABEL:  func.func @"train/step"
// CHECK:        aten._foreach_norm.Scalar
// CHECK:        %[[W:.+]] = aten.sum
// CHECK-NEXT:   aten._foreach_norm.Scalar
// CHECK:        %[[N:.+]] = aten.sum
// CHECK-NEXT:   %[[NPART:.+]] = aten.div.Scalar(%[[N]], other = 2.000000e+00)
// CHECK-NEXT:   %[[SUM1:.+]] = aten.add.Tensor(%[[W]], %[[NPART]])
// CHECK:        %[[I:.+]] = aten.sum
// CHECK-NEXT:   %[[IPART:.+]] = aten.div.Scalar(%[[I]], other = 3.000000e+00)
// CHECK-NEXT:   %[[SUM2:.+]] = aten.add.Tensor(%[[SUM1]], %[[IPART]])
// CHECK:        %[[S:.+]] = aten.sum
// CHECK-NEXT:   %[[SPART:.+]] = aten.div.Scalar(%[[S]], other = 6.000000e+00)
// CHECK-NEXT:   %[[SUM3:.+]] = aten.add.Tensor(%[[SUM2]], %[[SPART]])
// CHECK-NEXT:   fsdp.all_reduce avg %{{.+}} over #[[WORLD:.+]] for metric : tensor<f32>
// CHECK-NEXT:   %[[A:.+]] = fsdp.all_reduce avg %[[SUM3]] over #[[WORLD]] for metric : tensor<f32>
// CHECK-NEXT:   aten.mul.Scalar(%[[A]], other = 6.000000e+00)
// CHECK-NEXT:   aten.sqrt

// INF-LABEL:    func.func @"train/step"
// INF:          aten._foreach_norm.Scalar
// INF-NOT:      aten.div.Scalar
// INF:          fsdp.all_reduce max
#shard = #fsdp.group<"shard", 3 : 2>
#tp = #fsdp.group<"tp", 2>
module attributes {fsdp.mesh = #fsdp.mesh<replicate = 2, shard = 3, tp = 2>} {
  fsdp.state parameter @w : tensor<6xf32> split <dim 0 over #tp> sharded <dim 0 over #shard>
  fsdp.state parameter @n : tensor<6xf32> sharded <dim 0 over #shard>
  fsdp.state parameter @i : tensor<6xf32> split <dim 0 over #tp>
  fsdp.state parameter @s : tensor<f32>
  func.func @"train/step"(%w: tensor<2xf32> {fsdp.state = @w}, %n: tensor<2xf32> {fsdp.state = @n}, %i: tensor<6xf32> {fsdp.state = @i}, %s: tensor<f32> {fsdp.state = @s}, %x: tensor<f32> {fsdp.input = "x"}, %gw: tensor<2xf32> {fsdp.input = "gw"}, %gn: tensor<2xf32> {fsdp.input = "gn"}, %gi: tensor<6xf32> {fsdp.input = "gi"}, %gs: tensor<f32> {fsdp.input = "gs"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<2xf32> {fsdp.gradient = @w}, tensor<2xf32> {fsdp.gradient = @n}, tensor<6xf32> {fsdp.gradient = @i}, tensor<f32> {fsdp.gradient = @s}) {
    %l = aten.neg(%x) : (tensor<f32>) -> tensor<f32>
    return %l, %gw, %gn, %gi, %gs : tensor<f32>, tensor<2xf32>, tensor<2xf32>, tensor<6xf32>, tensor<f32>
  }
}
