// RUN: fsdp-opt %s --fsdp-assign-streams | FileCheck %s

#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  fsdp.state parameter @a : tensor<4xf32> sharded <dim 0 over #shard>
  fsdp.state parameter @b : tensor<4xf32> sharded <dim 0 over #shard>
  // CHECK-LABEL: @"train/step"
  func.func @"train/step"(%a: tensor<2xf32> {fsdp.state = @a}, %b: tensor<2xf32> {fsdp.state = @b}) {
    // The first transfer comes after what the caller did.
    // CHECK-NEXT: %[[E0:.*]] = fsdp.record compute
    // CHECK-NEXT: fsdp.await %[[E0]] on gather
    // CHECK-NEXT: %[[F0:.*]] = fsdp.all_gather.start "a"
    %f = fsdp.all_gather.start "a"(%a) dims [0] over #shard on gather : tensor<2xf32> -> !fsdp.future<tensor<4xf32>>
    // Compute has done nothing since, a view is no work.
    // CHECK-NEXT: fsdp.replay
    // CHECK-NEXT: aten.t(
    // CHECK-NEXT: %[[F1:.*]] = fsdp.all_gather.start "b"
    %r = fsdp.replay %b : tensor<2xf32>
    %t = aten.t(%r) : (tensor<2xf32>) -> tensor<2xf32>
    %g = fsdp.all_gather.start "b"(%t) dims [0] over #shard on gather : tensor<2xf32> -> !fsdp.future<tensor<4xf32>>
    // CHECK-NEXT: fsdp.wait %[[F0]]
    // CHECK-NEXT: fsdp.wait %[[F1]]
    %w = fsdp.wait %f : !fsdp.future<tensor<4xf32>> -> tensor<4xf32>
    %x = fsdp.wait %g : !fsdp.future<tensor<4xf32>> -> tensor<4xf32>
    // CHECK-NEXT: aten.mul.Tensor
    // CHECK-NEXT: fsdp.free
    // CHECK-NEXT: %[[E1:.*]] = fsdp.record compute
    // CHECK-NEXT: fsdp.await %[[E1]] on reduce
    // CHECK-NEXT: %[[F2:.*]] = fsdp.reduce_scatter.start
    %m = aten.mul.Tensor(%w, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    fsdp.free %w, %x : tensor<4xf32>, tensor<4xf32>
    %h = fsdp.reduce_scatter.start avg "a"(%m) dims [0] over #shard on reduce : tensor<4xf32> -> !fsdp.future<tensor<2xf32>>
    // A wait is work for whatever comes after it.
    // CHECK: fsdp.wait %[[F2]]
    // CHECK-NEXT: %[[E2:.*]] = fsdp.record compute
    // CHECK-NEXT: fsdp.await %[[E2]] on reduce
    // CHECK-NEXT: fsdp.all_reduce.start
    %s = fsdp.wait %h : !fsdp.future<tensor<2xf32>> -> tensor<2xf32>
    %i = fsdp.all_reduce.start avg "a"(%s) over #shard on reduce : tensor<2xf32> -> !fsdp.future<tensor<2xf32>>
    %z = fsdp.wait %i : !fsdp.future<tensor<2xf32>> -> tensor<2xf32>
    return
  }
}
