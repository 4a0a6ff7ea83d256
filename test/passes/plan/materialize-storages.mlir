// RUN: fsdp-opt %s --fsdp-materialize-storages --split-input-file | FileCheck %s

// What has memory of its own stays as it is.
#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  // CHECK-LABEL: @"train/own"
  // CHECK-NOT: aten.clone
  // CHECK: return
  func.func @"train/own"(%x: tensor<3x4xf32> {fsdp.input = "x"}) -> (tensor<f32> {fsdp.output = "loss"}) {
    %g = aten.relu(%x) : (tensor<3x4xf32>) -> tensor<3x4xf32>
    // All of its base: rows may be added behind it.
    %v = aten._unsafe_view(%g, size = [3, 2, 2]) : (tensor<3x4xf32>) -> tensor<3x2x2xf32>
    %f = fsdp.start reduce_scatter avg "a"(%v) dims [0] over #shard on reduce : tensor<3x2x2xf32> -> !fsdp.future<tensor<2x2x2xf32>>
    %r = fsdp.wait %f : !fsdp.future<tensor<2x2x2xf32>> -> tensor<2x2x2xf32>
    %s = aten.sum(%g) : (tensor<3x4xf32>) -> tensor<f32>
    %h = fsdp.start all_reduce avg "metrics"(%s) over #shard for metric on reduce : tensor<f32> -> !fsdp.future<tensor<f32>>
    %l = fsdp.wait %h : !fsdp.future<tensor<f32>> -> tensor<f32>
    return %l : tensor<f32>
  }
}

// -----

// A part of another tensor, a strided one, an input: rows behind them are not
// theirs to zero.
#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  // CHECK-LABEL: @"train/parts"
  func.func @"train/parts"(%x: tensor<3x4xf32> {fsdp.input = "x"}) {
    %g = aten.relu(%x) : (tensor<3x4xf32>) -> tensor<3x4xf32>
    %p = aten.slice.Tensor(%g, start = 1, end = 2) : (tensor<3x4xf32>) -> tensor<1x4xf32>
    %t = aten.t(%g) : (tensor<3x4xf32>) -> tensor<4x3xf32, #aten.strides<1, 4>>
    // CHECK: %[[P:.*]] = aten.clone({{.*}}, memory_format = "contiguous") : (tensor<1x4xf32>) -> tensor<1x4xf32>
    // CHECK-NEXT: %[[T:.*]] = aten.clone({{.*}}) : (tensor<4x3xf32, #aten.strides<1, 4>>) -> tensor<4x3xf32>
    // CHECK-NEXT: %[[X:.*]] = aten.clone(%arg0, memory_format = "contiguous")
    // CHECK-NEXT: fsdp.start reduce_scatter avg "a"(%[[P]], %[[T]], %[[X]])
    %f = fsdp.start reduce_scatter avg "a"(%p, %t, %x) dims [0, 0, 0] over #shard on reduce : tensor<1x4xf32>, tensor<4x3xf32, #aten.strides<1, 4>>, tensor<3x4xf32> -> !fsdp.future<tensor<1x4xf32>, tensor<2x3xf32>, tensor<2x4xf32>>
    %r:3 = fsdp.wait %f : !fsdp.future<tensor<1x4xf32>, tensor<2x3xf32>, tensor<2x4xf32>> -> tensor<1x4xf32>, tensor<2x3xf32>, tensor<2x4xf32>
    return
  }
}

// -----

// A value that is read again after it was reduced in place.
#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  // CHECK-LABEL: @"train/contested"
  func.func @"train/contested"(%x: tensor<4xf32> {fsdp.input = "x"}) -> (tensor<f32> {fsdp.output = "own"}, tensor<f32> {fsdp.output = "mean"}) {
    // CHECK: %[[S:.*]] = aten.sum(
    // CHECK-NEXT: %[[C:.*]] = aten.clone(%[[S]]
    // CHECK-NEXT: fsdp.start all_reduce avg "metrics"(%[[C]])
    %s = aten.sum(%x) : (tensor<4xf32>) -> tensor<f32>
    %h = fsdp.start all_reduce avg "metrics"(%s) over #shard for metric on reduce : tensor<f32> -> !fsdp.future<tensor<f32>>
    %l = fsdp.wait %h : !fsdp.future<tensor<f32>> -> tensor<f32>
    // CHECK: return %[[S]],
    return %s, %l : tensor<f32>, tensor<f32>
  }
}

// -----

// A result that lies in a state which is overwritten before it is taken.
module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>} {
  fsdp.state parameter @w : tensor<4xf32>
  fsdp.state scalar @lr : tensor<f32>
  // CHECK-LABEL: @"train/foreign"
  func.func @"train/foreign"(%w: tensor<4xf32> {fsdp.state = @w}, %lr: tensor<f32> {fsdp.state = @lr})
      -> (tensor<4xf32> {fsdp.output = "before"}, tensor<4xf32> {fsdp.state = @w}) {
    // CHECK: %[[V:.*]] = aten.view(
    // CHECK-NEXT: %[[C:.*]] = aten.clone(%[[V]]
    // CHECK: fsdp.update sgd
    // CHECK-NEXT: return %[[C]],
    %v = aten.view(%w, size = [4]) : (tensor<4xf32>) -> tensor<4xf32>
    %g = aten.relu(%w) : (tensor<4xf32>) -> tensor<4xf32>
    %n = fsdp.update sgd params(%w) grads(%g) momentum_buffers() lr %lr momentum 0.0 weight_decay 0.0 : tensor<4xf32>
    return %v, %n : tensor<4xf32>, tensor<4xf32>
  }
}
