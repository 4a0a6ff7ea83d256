// A split state has in the artifact the shape of its part, its bytes on one rank,
// and a first value of the whole tensor's elements.
//
// DEFINE: %{plan} = --fsdp-bucket-collectives --fsdp-schedule-collectives --fsdp-insert-frees --fsdp-plan-pipeline
//
// RUN: fsdp-opt %s %{plan} -o %t.mlir && fsdp-opt %t.mlir -o %t.fsdp
// RUN: fsdp-opt %t.fsdp -o - | FileCheck %s
//
// CHECK:     mesh <shard = 2, tp = 2>
// CHECK-DAG: group shard: 2 ranks, stride 2
// CHECK-DAG: group tp: 2 ranks, stride 1
// CHECK:     states
// CHECK-DAG: parameter "up" : f32[3, 2] split dim 0 over tp dim 0 over shard @{{[0-9]+}} 16 bytes bucket "m"
// CHECK-DAG: parameter "down" : f32[2, 3] split dim 1 over tp dim 0 over shard @{{[0-9]+}} 12 bytes bucket "m"
// CHECK-DAG: buffer "mean" : f32[3] split dim 0 over tp @{{[0-9]+}} 12 bytes
// CHECK-DAG: buffer "scale" : f32[] @{{[0-9]+}} 4 bytes
//
//
// A split over ranks of the shards' own group leaves elements that nobody has.
//
// RUN: sed 's/split <dim 1 over #tp>/split <dim 1 over #shard>/' %t.mlir | not fsdp-opt - -o %t.own.fsdp 2>&1 | FileCheck %s --check-prefix=OWN
// OWN: state 'down' is split over ranks of the group that it is sharded over

#mesh = #fsdp.mesh<shard = 2, tp = 2>
#shard = #fsdp.group<"shard", 2 : 2>
#tp = #fsdp.group<"tp", 2>
module attributes {fsdp.mesh = #mesh} {
  fsdp.state parameter @up : tensor<3x2xf32> split <dim 0 over #tp> sharded <dim 0 over #shard> bucket "m" init dense<[[0.0, 1.0], [2.0, 3.0], [4.0, 5.0], [6.0, 7.0], [8.0, 9.0], [10.0, 11.0]]> : tensor<6x2xf32>
  fsdp.state parameter @down : tensor<2x3xf32> split <dim 1 over #tp> sharded <dim 0 over #shard> bucket "m" init 1.0 : f32
  fsdp.state buffer @mean : tensor<3xf32> split <dim 0 over #tp> init dense<[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]> : tensor<6xf32>
  fsdp.state buffer @scale : tensor<f32> init 2.0 : f32
  func.func @"infer/step"(%up: tensor<2x2xf32> {fsdp.state = @up}, %down: tensor<1x3xf32> {fsdp.state = @down}, %mean: tensor<3xf32> {fsdp.state = @mean}, %scale: tensor<f32> {fsdp.state = @scale}, %x: tensor<4x2xf32> {fsdp.input = "x"})
      -> (tensor<4x2xf32> {fsdp.output = "y"}) attributes {fsdp.program = #fsdp.program<kind = infer>} {
    %u = fsdp.all_gather %up dim 0 over #shard : tensor<2x2xf32> -> tensor<3x2xf32>
    %ut = aten.t(%u) : (tensor<3x2xf32>) -> tensor<2x3xf32, #aten.strides<1, 2>>
    %h = aten.addmm(%mean, %x, %ut) : (tensor<3xf32>, tensor<4x2xf32>, tensor<2x3xf32, #aten.strides<1, 2>>) -> tensor<4x3xf32>
    %d = fsdp.all_gather %down dim 0 over #shard : tensor<1x3xf32> -> tensor<2x3xf32>
    %dt = aten.t(%d) : (tensor<2x3xf32>) -> tensor<3x2xf32, #aten.strides<1, 3>>
    %s = aten.mm(%h, %dt) : (tensor<4x3xf32>, tensor<3x2xf32, #aten.strides<1, 3>>) -> tensor<4x2xf32>
    %y = fsdp.all_reduce sum %s over #tp for step : tensor<4x2xf32>
    %z = aten.mul.Tensor(%y, %scale) : (tensor<4x2xf32>, tensor<f32>) -> tensor<4x2xf32>
    return %z : tensor<4x2xf32>
  }
}
