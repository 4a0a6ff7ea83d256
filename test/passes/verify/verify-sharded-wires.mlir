// RUN: fsdp-opt %s --fsdp-verify-sharded --split-input-file --verify-diagnostics

// What travels in eight bits has one scale on all ranks, by which the sums are divided.

#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  fsdp.state parameter @w : tensor<4xf32> sharded <dim 0 over #shard>
  func.func @"train/step"(%w: tensor<2xf32> {fsdp.state = @w}, %g: tensor<4xf32> {fsdp.input = "g"}) -> (tensor<2xf32> {fsdp.gradient = @w}) {
    %d = aten.neg(%g) : (tensor<4xf32>) -> tensor<4xf32>
    %n = fsdp.amax %d : tensor<4xf32> -> tensor<f32>
    %m = fsdp.all_reduce max %n over #shard for scale : tensor<f32>
    %p = fsdp.scale %m to f8E4M3FN least 1.0e-12 : tensor<f32>
    %h = fsdp.encode %d by %p : tensor<4xf32>, tensor<f32> -> tensor<4xf8E4M3FN>
    %t = fsdp.reduce_scatter avg %h dim 0 over #shard of @w : tensor<4xf8E4M3FN> -> tensor<2xf32>
    %s = fsdp.decode %t by %p : tensor<2xf32>, tensor<f32>
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
    %n = fsdp.amax %d : tensor<4xf32> -> tensor<f32>
    %p = fsdp.scale %n to f8E4M3FN least 1.0e-12 : tensor<f32>
    %h = fsdp.encode %d by %p : tensor<4xf32>, tensor<f32> -> tensor<4xf8E4M3FN>
    // expected-error @+1 {{expects what travels to be scaled by the greatest value of all ranks of 'shard'}}
    %t = fsdp.reduce_scatter avg %h dim 0 over #shard of @w : tensor<4xf8E4M3FN> -> tensor<2xf32>
    %s = fsdp.decode %t by %p : tensor<2xf32>, tensor<f32>
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
    %n = fsdp.amax %g : tensor<4xf32> -> tensor<f32>
    %m = fsdp.all_reduce max %n over #shard for scale : tensor<f32>
    %i = fsdp.scale %m to f8E4M3FN least 1.0e-12 : tensor<f32>
    %h = fsdp.encode %d by %i : tensor<4xf32>, tensor<f32> -> tensor<4xf8E4M3FN>
    // expected-error @+1 {{expects what travels to be scaled by the greatest value of all ranks of 'shard'}}
    %t = fsdp.reduce_scatter avg %h dim 0 over #shard of @w : tensor<4xf8E4M3FN> -> tensor<2xf32>
    %s = fsdp.decode %t by %i : tensor<2xf32>, tensor<f32>
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
    %n = fsdp.amax %d : tensor<4xf32> -> tensor<f32>
    %m = fsdp.all_reduce max %n over #shard for scale : tensor<f32>
    %p = fsdp.scale %m to f8E4M3FN least 1.0e-12 : tensor<f32>
    %h = fsdp.encode %d by %p : tensor<4xf32>, tensor<f32> -> tensor<4xf8E4M3FN>
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
    %n = fsdp.amax %d : tensor<4xf32> -> tensor<f32>
    %m = fsdp.all_reduce max %n over #shard for scale : tensor<f32>
    %p = fsdp.scale %m to f8E4M3FN least 1.0e-12 : tensor<f32>
    %i = fsdp.scale %m to f8E4M3FN least 1.0e-12 : tensor<f32>
    %h = fsdp.encode %d by %p : tensor<4xf32>, tensor<f32> -> tensor<4xf8E4M3FN>
    %t = fsdp.reduce_scatter avg %h dim 0 over #shard of @w : tensor<4xf8E4M3FN> -> tensor<2xf32>
    // expected-error @+1 {{reads sums that are still multiplied by the scale with which they travelled}}
    %s = fsdp.decode %t by %i : tensor<2xf32>, tensor<f32>
    return %s : tensor<2xf32>
  }
}
