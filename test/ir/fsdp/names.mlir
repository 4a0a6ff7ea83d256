// RUN: fsdp-opt %s --verify-roundtrip | FileCheck %s

// Futures are called after what happens to which bucket, and what comes of them
// after parameters; long lists stand on several lines.

#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  fsdp.state parameter @a.weight : tensor<4xf32> sharded <dim 0 over #shard> bucket "layers/1"
  // CHECK-LABEL: @"train/step"
  func.func @"train/step"(%a: tensor<2xf32> {fsdp.state = @a.weight}, %lr: tensor<f32>) {
    // CHECK: %gather.layers.1 = fsdp.start all_gather "layers/1"
    %0 = fsdp.start all_gather "layers/1"(%a) dims [0] over #shard on gather : tensor<2xf32> -> !fsdp.future<tensor<4xf32>>
    // CHECK: %a.weight.full = fsdp.wait %gather.layers.1
    %1 = fsdp.wait %0 : !fsdp.future<tensor<4xf32>> -> tensor<4xf32>
    %2 = fsdp.replay %a : tensor<2xf32>
    // CHECK: %regather.layers.1 = fsdp.start all_gather "layers/1"
    %3 = fsdp.start all_gather "layers/1"(%2) dims [0] over #shard on gather : tensor<2xf32> -> !fsdp.future<tensor<4xf32>>
    // CHECK: %a.weight.full_0 = fsdp.wait %regather.layers.1
    %4 = fsdp.wait %3 : !fsdp.future<tensor<4xf32>> -> tensor<4xf32>
    // CHECK: %reduce.layers.1 = fsdp.start reduce_scatter avg "layers/1"
    %5 = fsdp.start reduce_scatter avg "layers/1"(%4) dims [0] over #shard on reduce of [@a.weight] : tensor<4xf32> -> !fsdp.future<tensor<2xf32>>
    // CHECK: %a.weight.grad = fsdp.wait %reduce.layers.1
    %6 = fsdp.wait %5 : !fsdp.future<tensor<2xf32>> -> tensor<2xf32>
    // CHECK: %[[M:.+]] = fsdp.start all_reduce avg "metrics"
    %7 = fsdp.start all_reduce avg "metrics"(%lr, %lr) over #shard for metric on reduce : tensor<f32>, tensor<f32> -> !fsdp.future<tensor<f32>, tensor<f32>>
    // CHECK: %metrics, %metrics_1 = fsdp.wait %[[M]]
    %8:2 = fsdp.wait %7 : !fsdp.future<tensor<f32>, tensor<f32>> -> tensor<f32>, tensor<f32>
    // CHECK:      fsdp.update sgd params(%arg0, %arg0, %arg0, %arg0,{{$}}
    // CHECK-NEXT: {{ +}}%arg0) grads(
    // CHECK:      : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>,{{$}}
    // CHECK-NEXT: {{ +}}tensor<2xf32>{{$}}
    %n:5 = fsdp.update sgd params(%a, %a, %a, %a, %a) grads(%6, %6, %6, %6, %6) momentum_buffers() lr %lr momentum 0.0 weight_decay 0.0
        : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
    return
  }
}
