// RUN: fsdp-opt %s --split-input-file --verify-diagnostics --fsdp-insert-optimizer

module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>, fsdp.optimizer = #fsdp.optimizer<state_dtype = bfloat16>} {
  // expected-error @below {{cannot have its optimizer states as bfloat16: it is in f64}}
  fsdp.state parameter @w : tensor<4xf64>
  func.func @"train/step"(%w: tensor<4xf64> {fsdp.state = @w}, %x: tensor<f32> {fsdp.input = "x"}) -> (tensor<f32> {fsdp.output = "loss"}, tensor<4xf64> {fsdp.gradient = @w}) {
    return %x, %w : tensor<f32>, tensor<4xf64>
  }
}

// -----

// expected-error @below {{expected parameters in bf16 for optimizer.stochastic_rounding, found none to train}}
module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>, fsdp.optimizer = #fsdp.optimizer<stochastic_rounding = true>} {
  fsdp.state parameter @w : tensor<4xf32>
  func.func @"train/step"(%w: tensor<4xf32> {fsdp.state = @w}, %x: tensor<f32> {fsdp.input = "x"}) -> (tensor<f32> {fsdp.output = "loss"}, tensor<4xf32> {fsdp.gradient = @w}) {
    return %x, %w : tensor<f32>, tensor<4xf32>
  }
}

// -----

module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>, fsdp.optimizer = #fsdp.optimizer<state_dtype = int8>} {
  // expected-error @below {{its member 'b' does not begin with a block; flatten buckets with the same settings}}
  fsdp.state parameter @f : tensor<16384xf32> flat <over <"shard", 2>>
  fsdp.state parameter @a : tensor<5000xf32> part <@f at 0>
  fsdp.state parameter @b : tensor<5000xf32> part <@f at 5000>
  func.func @"train/step"(%w: tensor<8192xf32> {fsdp.state = @f}, %x: tensor<f32> {fsdp.input = "x"}) -> (tensor<f32> {fsdp.output = "loss"}, tensor<8192xf32> {fsdp.gradient = @f}) {
    return %x, %w : tensor<f32>, tensor<8192xf32>
  }
}
