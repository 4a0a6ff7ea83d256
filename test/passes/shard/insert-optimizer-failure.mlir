// RUN: fsdp-opt %s --fsdp-insert-optimizer --split-input-file --verify-diagnostics

module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>} {
  // expected-error @+1 {{expects gradients to train with, found none; at least one parameter must require them}}
  func.func @"train/step"(%x: tensor<f32> {fsdp.input = "x"}) -> (tensor<f32> {fsdp.output = "loss"}) {
    return %x : tensor<f32>
  }
}

// -----

module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>} {
  // expected-error @+1 {{expects a parameter of f16, bf16, f32 or f64 to train, found 'complex<f32>'; freeze it}}
  fsdp.state parameter @w : tensor<2xcomplex<f32>>
  func.func @"train/step"(%w: tensor<2xcomplex<f32>> {fsdp.state = @w}, %x: tensor<f32> {fsdp.input = "x"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<2xcomplex<f32>> {fsdp.gradient = @w}) {
    return %x, %w : tensor<f32>, tensor<2xcomplex<f32>>
  }
}

// -----

// expected-error @+1 {{expects a sharded program; run fsdp-shard-parameters first}}
module {
}

// -----

// expected-error @+1 {{expects a mesh with the axis 'shard', or with 'replicate' and 'shard', found #fsdp.mesh<replicate = 2>}}
module attributes {fsdp.mesh = #fsdp.mesh<replicate = 2>} {
}

// -----

// A parameter that only one program trains would have optimizer states of other
// steps than the rest.
module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>} {
  fsdp.state parameter @w : tensor<4xf32>
  fsdp.state parameter @v : tensor<4xf32>
  // expected-note @+1 {{the other program}}
  func.func @"train/step[x.0=2]"(%w: tensor<4xf32> {fsdp.state = @w}, %v: tensor<4xf32> {fsdp.state = @v}, %x: tensor<f32> {fsdp.input = "x"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<4xf32> {fsdp.gradient = @w}, tensor<4xf32> {fsdp.gradient = @v}) attributes {fsdp.program = #fsdp.program<shapes = "x.0=2">} {
    return %x, %w, %v : tensor<f32>, tensor<4xf32>, tensor<4xf32>
  }
  // expected-error @+1 {{has no gradient of 'v', which 'train/step[x.0=2]' has; programs of one artifact train the same parameters}}
  func.func @"train/step[x.0=5]"(%w: tensor<4xf32> {fsdp.state = @w}, %v: tensor<4xf32> {fsdp.state = @v}, %x: tensor<f32> {fsdp.input = "x"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<4xf32> {fsdp.gradient = @w}) attributes {fsdp.program = #fsdp.program<shapes = "x.0=5">} {
    return %x, %w : tensor<f32>, tensor<4xf32>
  }
}
