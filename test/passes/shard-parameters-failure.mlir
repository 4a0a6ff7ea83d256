// RUN: fsdp-opt %s --fsdp-shard-parameters=world=2 --split-input-file --verify-diagnostics

module {
  // expected-error @+1 {{expects a parameter with at least one dim to shard, found a scalar; give it the shape [1], or register it as a buffer}}
  fsdp.state parameter @w : tensor<f32>
  func.func @"train/step"(%w: tensor<f32> {fsdp.state = @w}) -> (tensor<f32> {fsdp.output = "loss"}, tensor<f32> {fsdp.gradient = @w}) attributes {fsdp.captured} {
    return %w, %w : tensor<f32>, tensor<f32>
  }
}

// -----

// expected-error @+1 {{is sharded already: it carries 'fsdp.mesh'}}
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
}

// -----

module {
  // expected-error @+1 {{expects a parameter that is contiguous, found strides; call contiguous() on it before the export}}
  fsdp.state frozen @w : tensor<4x2xf32>
  func.func @"train/step"(%w: tensor<4x2xf32, #aten.strides<1, 4>> {fsdp.state = @w}, %x: tensor<f32> {fsdp.input = "x"}) -> (tensor<f32> {fsdp.output = "loss"}) attributes {fsdp.captured} {
    return %x : tensor<f32>
  }
}
