// RUN: fsdp-opt %s --fsdp-verify-grains --split-input-file --verify-diagnostics

// Without grains nothing is asked for.

#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  func.func @"train/step"(%g: tensor<f32> {fsdp.input = "g"}) -> (tensor<f32> {fsdp.output = "loss"}) {
    %l = fsdp.all_reduce avg %g over #shard for metric : tensor<f32>
    return %l : tensor<f32>
  }
}

// -----

// Trees, sums of integers and maxima.

#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>, fsdp.step = #fsdp.step<grains = 2>} {
  fsdp.state parameter @w : tensor<4xf32> sharded <dim 0 over #shard>
  func.func @"train/step"(%w: tensor<2xf32> {fsdp.state = @w}, %g: tensor<4xf32> {fsdp.input = "g"}, %x: tensor<f32> {fsdp.input = "x"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<2xf32> {fsdp.gradient = @w}, tensor<f32> {fsdp.output = "grad_norm"}) {
    %l = fsdp.all_reduce tree %x post 2.0 over #shard for metric : tensor<f32>
    %s = fsdp.reduce_scatter tree %g post 2.0 dim 0 over #shard of @w : tensor<4xf32> -> tensor<2xf32>
    %d = fsdp.square_sum(%s) : (tensor<2xf32>) -> tensor<16xi64>
    %e = fsdp.all_reduce sum %d over #shard for metric : tensor<16xi64>
    %n = fsdp.square_root(%e) : tensor<16xi64> -> tensor<f32>
    %m = fsdp.all_reduce max %n over #shard for scale : tensor<f32>
    return %l, %s, %m : tensor<f32>, tensor<2xf32>, tensor<f32>
  }
}

// -----

#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>, fsdp.step = #fsdp.step<grains = 2>} {
  func.func @"train/step"(%x: tensor<f32> {fsdp.input = "x"}) -> (tensor<f32> {fsdp.output = "loss"}) {
    // expected-error @+1 {{combines ranks by 'avg', whose roundings depend on how many there are; expected 'tree', or a sum of integers}}
    %l = fsdp.all_reduce avg %x over #shard for metric : tensor<f32>
    return %l : tensor<f32>
  }
}

// -----

#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>, fsdp.step = #fsdp.step<grains = 2>} {
  func.func @"train/step"(%x: tensor<f16> {fsdp.input = "x"}) -> (tensor<f16> {fsdp.output = "loss"}) {
    // expected-error @+1 {{sums 2 grains in f16 before it divides, which overflows}}
    %l = fsdp.all_reduce tree %x over #shard for metric : tensor<f16>
    return %l : tensor<f16>
  }
}

// -----

// A norm of a shard.

#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>, fsdp.step = #fsdp.step<grains = 2>} {
  fsdp.state parameter @w : tensor<4xf32> sharded <dim 0 over #shard>
  func.func @"train/step"(%w: tensor<2xf32> {fsdp.state = @w}, %g: tensor<4xf32> {fsdp.input = "g"}) -> (tensor<f32> {fsdp.output = "n"}) {
    %s = fsdp.reduce_scatter tree %g post 2.0 dim 0 over #shard of @w : tensor<4xf32> -> tensor<2xf32>
    %m = aten._foreach_norm.Scalar([%s], ord = 0x7FF0000000000000 : f64) : (tensor<2xf32>) -> tensor<f32>
    // expected-error @+1 {{sums over a shard, which other numbers of ranks cut elsewhere; expected 'fsdp.square_sum'}}
    %n = aten._foreach_norm.Scalar([%s]) : (tensor<2xf32>) -> tensor<f32>
    return %n : tensor<f32>
  }
}

// -----

// Micro-batches that are added one after the other.

module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>, fsdp.micro_batches = 2 : i64, fsdp.step = #fsdp.step<grains = 2, micro_batches = 2>} {
  fsdp.state scalar @"loss/sum" : tensor<f32>
  func.func @"train/last"(%s: tensor<f32> {fsdp.state = @"loss/sum"}, %x: tensor<f32> {fsdp.input = "x"}) -> (tensor<f32> {fsdp.output = "loss"})
      attributes {fsdp.program = #fsdp.program<part = last>} {
    // expected-error @+1 {{adds a grain in the order of this rank's own, which other numbers of ranks do not have; expected 'tree'}}
    %l = fsdp.accumulate %x into %s divide 2 : tensor<f32>, tensor<f32>
    return %l : tensor<f32>
  }
}

// -----

// Running statistics.

module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>, fsdp.step = #fsdp.step<grains = 1>} {
  fsdp.state buffer @mean : tensor<4xf32>
  func.func @"train/step"(%m: tensor<4xf32> {fsdp.state = @mean}) -> (tensor<4xf32> {fsdp.state = @mean}) {
    // expected-error @+1 {{changes the buffer 'mean' by each rank's own grains}}
    %n = aten.neg(%m) : (tensor<4xf32>) -> tensor<4xf32>
    return %n : tensor<4xf32>
  }
}

// -----

// expected-error @+1 {{expected at least one of 3 grains a rank, found 4 ranks}}
module attributes {fsdp.mesh = #fsdp.mesh<shard = 4>, fsdp.step = #fsdp.step<grains = 3>} {
}

// -----

// expected-error @+1 {{expected 4 micro-batches, as many as grains of one rank, found 1}}
module attributes {fsdp.mesh = #fsdp.mesh<shard = 3>, fsdp.step = #fsdp.step<grains = 8>} {
}

// -----

module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>, fsdp.step = #fsdp.step<grains = 1>} {
  // expected-error @+1 {{is trained in f64, whose squares have no exact sum}}
  fsdp.state parameter @w : tensor<4xf64>
}

// -----

module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>, fsdp.step = #fsdp.step<grains = 2>} {
  // expected-error @+1 {{is each rank's own, so that it depends on how many ranks there are}}
  fsdp.state parameter @w : tensor<4xf32> gradient <local>
}
