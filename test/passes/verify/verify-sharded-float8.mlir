// RUN: fsdp-opt %s --fsdp-verify-sharded --split-input-file --verify-diagnostics

// What a shard is scaled by is of the parameter's greatest value, not of the
// shard's, of another parameter's or of other ranks'.

#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  fsdp.state frozen @w : tensor<32x16xf32> sharded <dim 0 over #shard> bucket "w"
  func.func @"infer/step"(%w: tensor<16x16xf32> {fsdp.state = @w}) -> (tensor<32x16xf8E4M3FN> {fsdp.output = "y"}) attributes {fsdp.program = #fsdp.program<kind = infer>} {
    %m = aten.linalg_vector_norm(%w, ord = 0x7FF0000000000000 : f64) : (tensor<16x16xf32>) -> tensor<f32>
    %r = fsdp.all_reduce max %m over #shard for scale : tensor<f32>
    %s = aten.reciprocal(%r) : (tensor<f32>) -> tensor<f32>
    %a = aten.mul.Tensor(%w, %s) : (tensor<16x16xf32>, tensor<f32>) -> tensor<16x16xf32>
    %w8 = aten._to_copy(%a, dtype = f8E4M3FN) : (tensor<16x16xf32>) -> tensor<16x16xf8E4M3FN>
    %f = fsdp.all_gather %w8 dim 0 over #shard : tensor<16x16xf8E4M3FN> -> tensor<32x16xf8E4M3FN>
    return %f : tensor<32x16xf8E4M3FN>
  }
}

// -----

#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  fsdp.state frozen @w : tensor<32x16xf32> sharded <dim 0 over #shard> bucket "w"
  func.func @"infer/step"(%w: tensor<16x16xf32> {fsdp.state = @w}) -> (tensor<32x16xf8E4M3FN> {fsdp.output = "y"}) attributes {fsdp.program = #fsdp.program<kind = infer>} {
    %m = aten.linalg_vector_norm(%w, ord = 0x7FF0000000000000 : f64) : (tensor<16x16xf32>) -> tensor<f32>
    // expected-error @+1 {{expects a scale of the greatest value of all shards of the parameter that it scales}}
    %a = aten.mul.Tensor(%w, %m) : (tensor<16x16xf32>, tensor<f32>) -> tensor<16x16xf32>
    %w8 = aten._to_copy(%a, dtype = f8E4M3FN) : (tensor<16x16xf32>) -> tensor<16x16xf8E4M3FN>
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
    %m = aten.linalg_vector_norm(%v, ord = 0x7FF0000000000000 : f64) : (tensor<16x16xf32>) -> tensor<f32>
    %r = fsdp.all_reduce max %m over #shard for scale : tensor<f32>
    // expected-error @+1 {{expects a scale of the greatest value of all shards of the parameter that it scales}}
    %a = aten.mul.Tensor(%w, %r) : (tensor<16x16xf32>, tensor<f32>) -> tensor<16x16xf32>
    %w8 = aten._to_copy(%a, dtype = f8E4M3FN) : (tensor<16x16xf32>) -> tensor<16x16xf8E4M3FN>
    %f = fsdp.all_gather %w8 dim 0 over #shard : tensor<16x16xf8E4M3FN> -> tensor<32x16xf8E4M3FN>
    return %f : tensor<32x16xf8E4M3FN>
  }
}

// -----

#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  fsdp.state frozen @w : tensor<32x16xf32> sharded <dim 0 over #shard> bucket "w"
  func.func @"infer/step"(%w: tensor<16x16xf32> {fsdp.state = @w}) -> (tensor<32x16xf8E4M3FN> {fsdp.output = "y"}) attributes {fsdp.program = #fsdp.program<kind = infer>} {
    %m = aten.linalg_vector_norm(%w, ord = 0x7FF0000000000000 : f64) : (tensor<16x16xf32>) -> tensor<f32>
    %r = fsdp.all_reduce avg %m over #shard for metric : tensor<f32>
    // expected-error @+1 {{expects a scale of the greatest value of all shards of the parameter that it scales}}
    %a = aten.mul.Tensor(%w, %r) : (tensor<16x16xf32>, tensor<f32>) -> tensor<16x16xf32>
    %w8 = aten._to_copy(%a, dtype = f8E4M3FN) : (tensor<16x16xf32>) -> tensor<16x16xf8E4M3FN>
    %f = fsdp.all_gather %w8 dim 0 over #shard : tensor<16x16xf8E4M3FN> -> tensor<32x16xf8E4M3FN>
    return %f : tensor<32x16xf8E4M3FN>
  }
}
