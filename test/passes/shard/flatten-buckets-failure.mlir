// RUN: fsdp-opt %s --fsdp-annotate='with={buckets<layout = flat>}' --fsdp-flatten-buckets --split-input-file --verify-diagnostics
// RUN: not fsdp-opt %s --fsdp-annotate='with={buckets<rules = [#fsdp.rule<buckets = ["a"], layout = square>]>}' --fsdp-flatten-buckets --split-input-file 2>&1 | FileCheck %s --check-prefix=VALUE
// RUN: not fsdp-opt %s --fsdp-annotate='with={buckets<rules = [#fsdp.rule<buckets = ["b*"], layout = flat>]>}' --fsdp-flatten-buckets --split-input-file 2>&1 | FileCheck %s --check-prefix=NAME

// VALUE: expected one of [auto, rows, flat, fsdp2] for how the shards of a bucket shall lie, got: square
// NAME:  expected buckets whose names match 'b*', found none

#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  // expected-error @+1 {{cannot be in a flat bucket: it is sharded along dim 1; write bucket_layout: auto, or rows for 'a'}}
  fsdp.state frozen @w : tensor<4x4xf32> sharded <dim 1 over #shard> bucket "a"
}

// -----

#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  // expected-error @+1 {{cannot be in a flat bucket: it is read by aten.neg without being gathered}}
  fsdp.state frozen @w : tensor<4x4xf32> sharded <dim 0 over #shard> bucket "a"
  func.func @"infer/step"(%w: tensor<2x4xf32> {fsdp.state = @w}) -> (tensor<2x4xf32> {fsdp.output = "y"}) attributes {fsdp.program = #fsdp.program<kind = infer>} {
    %y = aten.neg(%w) : (tensor<2x4xf32>) -> tensor<2x4xf32>
    return %y : tensor<2x4xf32>
  }
}

// -----

#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  // expected-error @+1 {{cannot be in a flat bucket: it has a gradient that is not simply reduced}}
  fsdp.state parameter @w : tensor<4x4xf32> sharded <dim 0 over #shard> bucket "a"
  func.func @"train/step"(%w: tensor<2x4xf32> {fsdp.state = @w}, %x: tensor<4x4xf32> {fsdp.input = "x"}) -> (tensor<4x4xf32> {fsdp.output = "loss"}, tensor<2x4xf32> {fsdp.gradient = @w}) {
    %f = fsdp.all_gather %w dim 0 over #shard : tensor<2x4xf32> -> tensor<4x4xf32>
    %g = fsdp.reduce_scatter avg %x dim 0 over #shard of @w : tensor<4x4xf32> -> tensor<2x4xf32>
    %n = aten.neg(%g) : (tensor<2x4xf32>) -> tensor<2x4xf32>
    return %f, %n : tensor<4x4xf32>, tensor<2x4xf32>
  }
}

// -----

// A part of the gathered tensor is there to be gathered again.

#shard = #fsdp.group<"shard", 4>
#inner = #fsdp.group<"inner_2", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 4>} {
  // expected-error @+1 {{cannot be in a flat bucket: it is read by aten.neg without being gathered}}
  fsdp.state frozen @w : tensor<4x4xf32> sharded <dim 0 over #shard> bucket "a"
  func.func @"infer/step"(%w: tensor<1x4xf32> {fsdp.state = @w}) -> (tensor<2x4xf32> {fsdp.output = "y"}) attributes {fsdp.program = #fsdp.program<kind = infer>} {
    %f = fsdp.all_gather %w dim 0 over #shard : tensor<1x4xf32> -> tensor<4x4xf32>
    %p = fsdp.shard %f dim 0 over #inner : tensor<4x4xf32> -> tensor<2x4xf32>
    %y = aten.neg(%p) : (tensor<2x4xf32>) -> tensor<2x4xf32>
    return %y : tensor<2x4xf32>
  }
}
