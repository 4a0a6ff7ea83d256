// RUN: fsdp-opt %s --fsdp-annotate='with={validation<files = ["held"]>}' --fsdp-add-validation --split-input-file --verify-diagnostics | FileCheck %s
// RUN: fsdp-opt %stages/1-captured.mlir --fsdp-annotate='with={shards<world = 2>, validation<files = ["held"]>, step<micro_batches = 2>}' --fsdp-shard-pipeline | FileCheck %s --check-prefix=SHARDED

// The clone keeps all arguments and of the results the loss: neither the
// gradient nor the new values of buffer and random state, nor another output.
// What only these need goes; a draw that the loss needs stays.

module {
  fsdp.state parameter @w : tensor<5xf32>
  fsdp.state buffer @mean : tensor<5xf32>
  fsdp.state random @"random/state" : tensor<2xi64>
  // CHECK-LABEL: func.func @"train/step[x.0=5]"
  // CHECK:       fsdp.gradient = @w
  // CHECK:       aten.neg
  // CHECK-LABEL: func.func @"infer/step"
  // CHECK-LABEL: func.func @"eval/step[x.0=5]"
  // CHECK-SAME:  (%[[W:.+]]: tensor<5xf32> {fsdp.state = @w}, %{{.+}}: tensor<5xf32> {fsdp.state = @mean}, %[[R:.+]]: tensor<2xi64> {fsdp.state = @"random/state"}, %[[X:.+]]: tensor<5xf32> {fsdp.input = "x"}) -> (tensor<f32> {fsdp.output = "loss"}) attributes {fsdp.captured, fsdp.program = #fsdp.program<kind = eval, shapes = "x.0=5">}
  // CHECK-NEXT:    %[[D:.+]] = fsdp.draw
  // CHECK-NEXT:    %[[P:.+]] = aten.mul.Tensor(%[[W]], %[[X]])
  // CHECK-NEXT:    %[[M:.+]] = aten.mul.Tensor(%[[P]], %[[D]])
  // CHECK-NEXT:    %[[L:.+]] = aten.sum(%[[M]])
  // CHECK-NEXT:    return %[[L]] : tensor<f32>
  // CHECK-NOT:   eval/step
  func.func @"train/step[x.0=5]"(
      %w: tensor<5xf32> {fsdp.state = @w}, %mean: tensor<5xf32> {fsdp.state = @mean},
      %random: tensor<2xi64> {fsdp.state = @"random/state"}, %x: tensor<5xf32> {fsdp.input = "x"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<5xf32> {fsdp.output = "product"}, tensor<5xf32> {fsdp.state = @mean},
          tensor<2xi64> {fsdp.state = @"random/state"}, tensor<5xf32> {fsdp.gradient = @w}) attributes {fsdp.program = #fsdp.program<shapes = "x.0=5">, fsdp.captured} {
    %mask = fsdp.draw uniform with [0.0, 1.0] site 0 from %random : (tensor<2xi64>) -> tensor<5xf32>
    %product = aten.mul.Tensor(%w, %x) : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xf32>
    %masked = aten.mul.Tensor(%product, %mask) : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xf32>
    %loss = aten.sum(%masked) : (tensor<5xf32>) -> tensor<f32>
    %running = aten.add.Tensor(%mean, %x) : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xf32>
    %gradient = aten.neg(%masked) : (tensor<5xf32>) -> tensor<5xf32>
    %step = fsdp.constant dense<[0, 1]> : tensor<2xi64>
    %next = aten.add.Tensor(%random, %step) : (tensor<2xi64>, tensor<2xi64>) -> tensor<2xi64>
    return %loss, %product, %running, %next, %gradient : tensor<f32>, tensor<5xf32>, tensor<5xf32>, tensor<2xi64>, tensor<5xf32>
  }
  func.func @"infer/step"(%x: tensor<5xf32> {fsdp.input = "x"}) -> (tensor<5xf32> {fsdp.output = "output"}) attributes {fsdp.program = #fsdp.program<kind = infer>, fsdp.captured} {
    return %x : tensor<5xf32>
  }
}

// It goes through the pipeline as a program for inference: no reduction but the
// mean of the loss, no second gather, no part of a step.
// SHARDED-LABEL: func.func @"train/first"
// SHARDED-LABEL: func.func @"train/last"
// SHARDED-LABEL: func.func @"eval/step"
// SHARDED-SAME:  -> (tensor<f32> {fsdp.output = "loss"}, tensor<f32> {fsdp.metric = "loss"})
// SHARDED-NOT:   reduce_scatter
// SHARDED-NOT:   fsdp.replay
// SHARDED:       fsdp.all_reduce avg
// SHARDED:       return
// SHARDED-LABEL: func.func @"reference/train/step"
// SHARDED:       fsdp.gradient
// SHARDED-LABEL: func.func @"reference/eval/step"
// SHARDED-NOT:   fsdp.gradient
// SHARDED:       return

// -----

module {
  // expected-error @+1 {{has a program 'eval/step' already}}
  func.func @"train/step"(%x: tensor<f32> {fsdp.input = "x"}) -> (tensor<f32> {fsdp.output = "loss"}) attributes {fsdp.captured} {
    return %x : tensor<f32>
  }
  func.func @"eval/step"(%x: tensor<f32> {fsdp.input = "x"}) -> (tensor<f32> {fsdp.output = "loss"}) attributes {fsdp.program = #fsdp.program<kind = eval>, fsdp.captured} {
    return %x : tensor<f32>
  }
}

// -----

module {
  // expected-error @+1 {{expects a captured program whose first result is the loss}}
  func.func @"train/step"(%x: tensor<f32> {fsdp.input = "x"}) -> (tensor<f32> {fsdp.output = "loss"}) {
    return %x : tensor<f32>
  }
}
