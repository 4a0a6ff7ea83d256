// RUN: fsdp-opt %s --fsdp-insert-optimizer | FileCheck %s

// Replicas have equal shards, and every rank has the scalar's gradient: the mean
// over the six ranks, times the three that a parameter is cut over, counts all
// elements once.

// CHECK-LABEL:  func.func @"train/replicas"
// CHECK:        %[[W:.+]] = aten.sum(%{{.+}}) : (tensor<1xf32>) -> tensor<f32>
// CHECK:        %[[S:.+]] = aten.sum(%{{.+}}) : (tensor<1xf32>) -> tensor<f32>
// CHECK-NEXT:   %[[PART:.+]] = aten.div.Scalar(%[[S]], other = 3.000000e+00)
// CHECK-NEXT:   %[[SUM:.+]] = aten.add.Tensor(%[[W]], %[[PART]])
// CHECK-NEXT:   fsdp.all_reduce avg %{{.+}} over #[[WORLD:.+]] for metric : tensor<f32>
// CHECK-NEXT:   %[[A:.+]] = fsdp.all_reduce avg %[[SUM]] over #[[WORLD]] for metric : tensor<f32>
// CHECK-NEXT:   aten.mul.Scalar(%[[A]], other = 3.000000e+00)
#shard = #fsdp.group<"shard", 3>
#replicate = #fsdp.group<"replicate", 2 : 3>
#world = #fsdp.group<"world", 6>
module attributes {fsdp.mesh = #fsdp.mesh<replicate = 2, shard = 3>} {
  fsdp.state parameter @w : tensor<6xf32> sharded <dim 0 over #shard> bucket "root"
  fsdp.state parameter @s : tensor<f32> bucket "root"
  func.func @"train/replicas"(%w: tensor<2xf32> {fsdp.state = @w}, %s: tensor<f32> {fsdp.state = @s}, %x: tensor<f32> {fsdp.input = "x"}, %gw: tensor<2xf32> {fsdp.input = "gw"}, %gs: tensor<f32> {fsdp.input = "gs"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<2xf32> {fsdp.gradient = @w}, tensor<f32> {fsdp.gradient = @s}) {
    %l = aten.neg(%x) : (tensor<f32>) -> tensor<f32>
    return %l, %gw, %gs : tensor<f32>, tensor<2xf32>, tensor<f32>
  }
}
