// RUN: fsdp-opt %s --fsdp-verify-sharded --split-input-file --verify-diagnostics

// Shards, replicas and what is whole, all beside 'tp', along which the step itself
// exchanges what it computes; that has no padding.

#shard = #fsdp.group<"shard", 2 : 2>
#replicate = #fsdp.group<"replicate", 2 : 4>
#data = #fsdp.group<"data", 4 : 2>
#tp = #fsdp.group<"tp", 2>
module attributes {fsdp.mesh = #fsdp.mesh<replicate = 2, shard = 2, tp = 2>} {
  fsdp.state parameter @w : tensor<4xf32> split <dim 0 over #tp> sharded <dim 0 over #shard>
  fsdp.state parameter @s : tensor<2xf32>
  fsdp.state optimizer @m of @w : tensor<4xf32> split <dim 0 over #tp> sharded <dim 0 over #shard>
  func.func @"train/step"(%w: tensor<2xf32> {fsdp.state = @w}, %s: tensor<2xf32> {fsdp.state = @s}, %g: tensor<4xf32> {fsdp.input = "g"}, %h: tensor<2xf32> {fsdp.input = "h"}) {
    %f = fsdp.all_gather %w dim 0 over #shard : tensor<2xf32> -> tensor<4xf32>
    %p = fsdp.reduce_scatter sum %f dim 0 over #tp for step : tensor<4xf32> -> tensor<2xf32>
    %c = fsdp.shard %s dim 0 over #tp for step : tensor<2xf32> -> tensor<1xf32>
    %q = aten.neg(%p) : (tensor<2xf32>) -> tensor<2xf32>
    %e = aten.exp(%c) : (tensor<1xf32>) -> tensor<1xf32>
    %a = fsdp.all_reduce sum %q over #tp for step : tensor<2xf32>
    %r = fsdp.reduce_scatter avg %g dim 0 over #shard of @w : tensor<4xf32> -> tensor<2xf32>
    %t = fsdp.all_reduce avg %r over #replicate of @w : tensor<2xf32>
    %u = fsdp.all_reduce avg %h over #data of @s : tensor<2xf32>
    return
  }
}

// -----

// A gradient that is averaged over ranks that read the same data.

#world = #fsdp.group<"world", 4>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2, tp = 2>} {
  // expected-error @+1 {{expects its gradient to be reduced over 2 ranks of 'shard', found 4 ranks of 'world'}}
  fsdp.state parameter @s : tensor<2xf32>
  func.func @"train/step"(%s: tensor<2xf32> {fsdp.state = @s}, %h: tensor<2xf32> {fsdp.input = "h"}) {
    %u = fsdp.all_reduce avg %h over #world of @s : tensor<2xf32>
    return
  }
}

// -----

// What is whole, averaged over adjacent ranks: they read the same data.

#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<replicate = 2, shard = 2, tp = 2>} {
  // expected-error @+1 {{expects its gradient to be reduced over 4 ranks of 'data'}}
  fsdp.state parameter @s : tensor<2xf32>
  func.func @"train/step"(%s: tensor<2xf32> {fsdp.state = @s}, %h: tensor<2xf32> {fsdp.input = "h"}) {
    %u = fsdp.all_reduce avg %h over #shard of @s : tensor<2xf32>
    return
  }
}

// -----

#tp = #fsdp.group<"tp", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 1, tp = 2>} {
  fsdp.state parameter @s : tensor<2xf32>
  func.func @"train/step"(%s: tensor<2xf32> {fsdp.state = @s}, %h: tensor<2xf32> {fsdp.input = "h"}) {
    // expected-error @+1 {{reduces the gradient of 's' over 'tp', whose ranks have computed it together}}
    %u = fsdp.all_reduce sum %h over #tp for step of @s : tensor<2xf32>
    return
  }
}

// -----

#tp = #fsdp.group<"tp", 4>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 1, tp = 2>} {
  func.func @"train/step"(%h: tensor<2xf32> {fsdp.input = "h"}) {
    // expected-error @+1 {{expects the ranks along 'tp' of the mesh}}
    %u = fsdp.all_reduce sum %h over #tp for step : tensor<2xf32>
    return
  }
}

// -----

#tp = #fsdp.group<"tp", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  // expected-error @+1 {{expects to be split over 'tp' of the mesh}}
  fsdp.state frozen @s : tensor<2xf32> split <dim 0 over #tp>
}

// -----

#tp = #fsdp.group<"tp", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 1, tp = 2>} {
  fsdp.state parameter @s : tensor<2xf32> split <dim 0 over #tp>
  // expected-error @+1 {{expects to be split as 's' is, of which it is kept}}
  fsdp.state optimizer @m of @s : tensor<2xf32>
}
