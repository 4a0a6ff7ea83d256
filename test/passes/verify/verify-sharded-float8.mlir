// RUN: fsdp-opt %s --fsdp-verify-sharded --split-input-file --verify-diagnostics

// What a shard is scaled by is of the parameter's greatest value, not of the
// shard's, of another parameter's or of other ranks'.

#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  fsdp.state frozen @w : tensor<32x16xf32> sharded <dim 0 over #shard> bucket "w"
  func.func @"infer/step"(%w: tensor<16x16xf32> {fsdp.state = @w}) -> (tensor<32x16xf8E4M3FN> {fsdp.output = "y"}) attributes {fsdp.program = #fsdp.program<kind = infer>} {
    %m = fsdp.amax %w : tensor<16x16xf32> -> tensor<f32>
    %r = fsdp.all_reduce max %m over #shard for scale : tensor<f32>
    %s = fsdp.scale %r to f8E4M3FN least 1.0e-12 : tensor<f32>
    %w8 = fsdp.encode %w by %s : tensor<16x16xf32>, tensor<f32> -> tensor<16x16xf8E4M3FN>
    %f = fsdp.all_gather %w8 dim 0 over #shard : tensor<16x16xf8E4M3FN> -> tensor<32x16xf8E4M3FN>
    return %f : tensor<32x16xf8E4M3FN>
  }
}

// -----

#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  fsdp.state frozen @w : tensor<32x16xf32> sharded <dim 0 over #shard> bucket "w"
  func.func @"infer/step"(%w: tensor<16x16xf32> {fsdp.state = @w}) -> (tensor<32x16xf8E4M3FN> {fsdp.output = "y"}) attributes {fsdp.program = #fsdp.program<kind = infer>} {
    %m = fsdp.amax %w : tensor<16x16xf32> -> tensor<f32>
    // expected-error @+1 {{expects a scale of the greatest value of all shards of the parameter that it scales}}
    %w8 = fsdp.encode %w by %m : tensor<16x16xf32>, tensor<f32> -> tensor<16x16xf8E4M3FN>
    %f = fsdp.all_gather %w8 dim 0 over #shard : tensor<16x16xf8E4M3FN> -> tensor<32x16xf8E4M3FN>
    return %f : tensor<32x16xf8E4M3FN>
  }
}

// -----

#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  fsdp.state frozen @w : tensor<32x16xf32> sharded <dim 0 over #shard> bucket "w"
  fsdp.state frozen @v : tensor<32x16xf32> sharded <dim 0 over #shard> bucket "w"
  func.func @"infer/step"(%w: tensor<16x16xf32> {fsdp.state = @w}, %v: tensor<16x16xf32> {fsdp.state = @v}) -> (tensor<32x16xf8E4M3FN> {fsdp.output = "y"}) attributes {fsdp.program = #fsdp.program<kind = infer>} {
    %m = fsdp.amax %v : tensor<16x16xf32> -> tensor<f32>
    %r = fsdp.all_reduce max %m over #shard for scale : tensor<f32>
    // expected-error @+1 {{expects a scale of the greatest value of all shards of the parameter that it scales}}
    %w8 = fsdp.encode %w by %r : tensor<16x16xf32>, tensor<f32> -> tensor<16x16xf8E4M3FN>
    %f = fsdp.all_gather %w8 dim 0 over #shard : tensor<16x16xf8E4M3FN> -> tensor<32x16xf8E4M3FN>
    return %f : tensor<32x16xf8E4M3FN>
  }
}

// -----

#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  fsdp.state frozen @w : tensor<32x16xf32> sharded <dim 0 over #shard> bucket "w"
  func.func @"infer/step"(%w: tensor<16x16xf32> {fsdp.state = @w}) -> (tensor<32x16xf8E4M3FN> {fsdp.output = "y"}) attributes {fsdp.program = #fsdp.program<kind = infer>} {
    %m = fsdp.amax %w : tensor<16x16xf32> -> tensor<f32>
    %r = fsdp.all_reduce avg %m over #shard for metric : tensor<f32>
    // expected-error @+1 {{expects a scale of the greatest value of all shards of the parameter that it scales}}
    %w8 = fsdp.encode %w by %r : tensor<16x16xf32>, tensor<f32> -> tensor<16x16xf8E4M3FN>
    %f = fsdp.all_gather %w8 dim 0 over #shard : tensor<16x16xf8E4M3FN> -> tensor<32x16xf8E4M3FN>
    return %f : tensor<32x16xf8E4M3FN>
  }
}
