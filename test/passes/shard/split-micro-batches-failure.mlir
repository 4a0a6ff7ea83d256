// RUN: fsdp-opt %s --fsdp-annotate='with={step<micro_batches = 2>}' --fsdp-split-micro-batches --split-input-file --verify-diagnostics
// RUN: not fsdp-opt %S/../Inputs/no-mesh.mlir --fsdp-annotate='with={step<micro_batches = 0>}' --fsdp-split-micro-batches 2>&1 | FileCheck %s --check-prefix=COUNT
// COUNT: expected at least 1 micro-batch a step, found 0

// expected-error @+1 {{expects a sharded program; run fsdp-shard-parameters first}}
module {
  func.func @"train/step"(%x: tensor<f32> {fsdp.input = "x"}) -> (tensor<f32> {fsdp.output = "loss"}) {
    return %x : tensor<f32>
  }
}

// -----

module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>} {
  // expected-error @+1 {{expects a whole step, which was not split yet}}
  func.func @"train/last"(%x: tensor<f32> {fsdp.input = "x"}) -> (tensor<f32> {fsdp.output = "loss"}) attributes {fsdp.program = #fsdp.program<part = last>} {
    return %x : tensor<f32>
  }
}

// -----

module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>} {
  // expected-error @+1 {{expects the loss as its first result}}
  func.func @"train/step"() {
    return
  }
}

// -----

module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>} {
  fsdp.state parameter @w : tensor<4xf32>
  fsdp.state scalar @lr : tensor<f32>
  func.func @"train/step"(%w: tensor<4xf32> {fsdp.state = @w}, %lr: tensor<f32> {fsdp.state = @lr}, %g: tensor<4xf32> {fsdp.input = "g"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<4xf32> {fsdp.state = @w}) {
    // expected-error @+1 {{updates parameters; run this pass before fsdp-insert-optimizer}}
    %new = fsdp.update sgd params(%w) grads(%g) momentum_buffers() lr %lr momentum 0.0 weight_decay 0.0 : tensor<4xf32>
    return %lr, %new : tensor<f32>, tensor<4xf32>
  }
}
