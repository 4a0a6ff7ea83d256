// RUN: fsdp-opt %s --fsdp-verify-sharded --split-input-file --verify-diagnostics

// What travels in eight bits has one scale on all ranks, by which the sums are divided.

#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  fsdp.state parameter @w : tensor<4xf32> sharded <dim 0 over #shard>
  func.func @"train/step"(%w: tensor<2xf32> {fsdp.state = @w}, %g: tensor<4xf32> {fsdp.input = "g"}) -> (tensor<2xf32> {fsdp.gradient = @w}) {
    %d = aten.neg(%g) : (tensor<4xf32>) -> tensor<4xf32>
    %n = aten.linalg_vector_norm(%d, ord = 0x7FF0000000000000 : f64) : (tensor<4xf32>) -> tensor<f32>
    %m = fsdp.all_reduce max %n over #shard for scale : tensor<f32>
    %p = aten.exp2(%m) : (tensor<f32>) -> tensor<f32>
    %i = aten.reciprocal(%p) : (tensor<f32>) -> tensor<f32>
    %a = aten.mul.Tensor(%d, %p) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
    %h = aten._to_copy(%a, dtype = f8E4M3FN) : (tensor<4xf32>) -> tensor<4xf8E4M3FN>
    %t = fsdp.reduce_scatter avg %h dim 0 over #shard of @w : tensor<4xf8E4M3FN> -> tensor<2xf32>
    %s = aten.mul.Tensor(%t, %i) : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
    return %s : tensor<2xf32>
  }
}

// -----

// Each rank's own scale.

#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  fsdp.state parameter @w : tensor<4xf32> sharded <dim 0 over #shard>
  func.func @"train/step"(%w: tensor<2xf32> {fsdp.state = @w}, %g: tensor<4xf32> {fsdp.input = "g"}) -> (tensor<2xf32> {fsdp.gradient = @w}) {
    %d = aten.neg(%g) : (tensor<4xf32>) -> tensor<4xf32>
    %n = aten.linalg_vector_norm(%d, ord = 0x7FF0000000000000 : f64) : (tensor<4xf32>) -> tensor<f32>
    %i = aten.reciprocal(%n) : (tensor<f32>) -> tensor<f32>
    %a = aten.mul.Tensor(%d, %n) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
    %h = aten._to_copy(%a, dtype = f8E4M3FN) : (tensor<4xf32>) -> tensor<4xf8E4M3FN>
    // expected-error @+1 {{expects what travels to be scaled by the greatest value of all ranks of 'shard'}}
    %t = fsdp.reduce_scatter avg %h dim 0 over #shard of @w : tensor<4xf8E4M3FN> -> tensor<2xf32>
    %s = aten.mul.Tensor(%t, %i) : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
    return %s : tensor<2xf32>
  }
}

// -----

// The greatest value of something else.

#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  fsdp.state parameter @w : tensor<4xf32> sharded <dim 0 over #shard>
  func.func @"train/step"(%w: tensor<2xf32> {fsdp.state = @w}, %g: tensor<4xf32> {fsdp.input = "g"}) -> (tensor<2xf32> {fsdp.gradient = @w}) {
    %d = aten.neg(%g) : (tensor<4xf32>) -> tensor<4xf32>
    %n = aten.linalg_vector_norm(%g, ord = 0x7FF0000000000000 : f64) : (tensor<4xf32>) -> tensor<f32>
    %m = fsdp.all_reduce max %n over #shard for scale : tensor<f32>
    %i = aten.reciprocal(%m) : (tensor<f32>) -> tensor<f32>
    %a = aten.mul.Tensor(%d, %m) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
    %h = aten._to_copy(%a, dtype = f8E4M3FN) : (tensor<4xf32>) -> tensor<4xf8E4M3FN>
    // expected-error @+1 {{expects what travels to be scaled by the greatest value of all ranks of 'shard'}}
    %t = fsdp.reduce_scatter avg %h dim 0 over #shard of @w : tensor<4xf8E4M3FN> -> tensor<2xf32>
    %s = aten.mul.Tensor(%t, %i) : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
    return %s : tensor<2xf32>
  }
}

// -----

// Sums that nobody divides.

#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  fsdp.state parameter @w : tensor<4xf32> sharded <dim 0 over #shard>
  func.func @"train/step"(%w: tensor<2xf32> {fsdp.state = @w}, %g: tensor<4xf32> {fsdp.input = "g"}) -> (tensor<2xf32> {fsdp.gradient = @w}) {
    %d = aten.neg(%g) : (tensor<4xf32>) -> tensor<4xf32>
    %n = aten.linalg_vector_norm(%d, ord = 0x7FF0000000000000 : f64) : (tensor<4xf32>) -> tensor<f32>
    %m = fsdp.all_reduce max %n over #shard for scale : tensor<f32>
    %a = aten.mul.Tensor(%d, %m) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
    %h = aten._to_copy(%a, dtype = f8E4M3FN) : (tensor<4xf32>) -> tensor<4xf8E4M3FN>
    %t = fsdp.reduce_scatter avg %h dim 0 over #shard of @w : tensor<4xf8E4M3FN> -> tensor<2xf32>
    // expected-error @+1 {{reads sums that are still multiplied by the scale with which they travelled}}
    return %t : tensor<2xf32>
  }
}

// -----

// Another scale than the one they were multiplied by.

#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  fsdp.state parameter @w : tensor<4xf32> sharded <dim 0 over #shard>
  func.func @"train/step"(%w: tensor<2xf32> {fsdp.state = @w}, %g: tensor<4xf32> {fsdp.input = "g"}) -> (tensor<2xf32> {fsdp.gradient = @w}) {
    %d = aten.neg(%g) : (tensor<4xf32>) -> tensor<4xf32>
    %n = aten.linalg_vector_norm(%d, ord = 0x7FF0000000000000 : f64) : (tensor<4xf32>) -> tensor<f32>
    %m = fsdp.all_reduce max %n over #shard for scale : tensor<f32>
    %p = aten.exp2(%m) : (tensor<f32>) -> tensor<f32>
    %i = aten.reciprocal(%m) : (tensor<f32>) -> tensor<f32>
    %a = aten.mul.Tensor(%d, %p) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
    %h = aten._to_copy(%a, dtype = f8E4M3FN) : (tensor<4xf32>) -> tensor<4xf8E4M3FN>
    %t = fsdp.reduce_scatter avg %h dim 0 over #shard of @w : tensor<4xf8E4M3FN> -> tensor<2xf32>
    // expected-error @+1 {{reads sums that are still multiplied by the scale with which they travelled}}
    %s = aten.mul.Tensor(%t, %i) : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
    return %s : tensor<2xf32>
  }
}
