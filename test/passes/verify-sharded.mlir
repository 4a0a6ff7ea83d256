// RUN: fsdp-opt %s --fsdp-verify-sharded --split-input-file --verify-diagnostics

#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  fsdp.state parameter @w : tensor<4xf32> sharded <dim 0 over #shard>
  fsdp.state frozen @f : tensor<4xf32> sharded <dim 0 over #shard>
  fsdp.state scalar @lr : tensor<f32>
  func.func @"train/step"(%w: tensor<2xf32> {fsdp.state = @w}, %f: tensor<2xf32> {fsdp.state = @f}, %lr: tensor<f32> {fsdp.state = @lr}, %g: tensor<4xf32> {fsdp.input = "g"})
      -> (tensor<2xf32> {fsdp.state = @w}) {
    %c = aten._to_copy(%f, dtype = bf16) : (tensor<2xf32>) -> tensor<2xbf16>
    %a = fsdp.all_gather %c dim 0 over #shard : tensor<2xbf16> -> tensor<4xbf16>
    %s = fsdp.reduce_scatter avg %g dim 0 over #shard of @w : tensor<4xf32> -> tensor<2xf32>
    %n = aten.linalg_vector_norm(%s) : (tensor<2xf32>) -> tensor<f32>
    %new = fsdp.sgd params(%w) grads(%s) momentum_buffers() lr %lr momentum 0.0 weight_decay 0.0 : tensor<2xf32>
    return %new : tensor<2xf32>
  }
}

// -----

// expected-error @+1 {{expects a sharded program, with 'fsdp.mesh' on the module}}
module {
}

// -----

module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  // expected-error @+1 {{expects its gradient to be reduced over 2 ranks, found 1}}
  fsdp.state parameter @w : tensor<4xf32>
  func.func @"train/step"(%w: tensor<4xf32> {fsdp.state = @w}) {
    return
  }
}

// -----

// Two axes: the reductions' sizes multiply.

#shard = #fsdp.group<"shard", 2>
#replicate = #fsdp.group<"replicate", 2 : 2>
module attributes {fsdp.mesh = #fsdp.mesh<replicate = 2, shard = 2>} {
  fsdp.state parameter @w : tensor<4xf32> sharded <dim 0 over #shard>
  func.func @"train/step"(%w: tensor<2xf32> {fsdp.state = @w}, %g: tensor<4xf32> {fsdp.input = "g"}) {
    %s = fsdp.reduce_scatter avg %g dim 0 over #shard of @w : tensor<4xf32> -> tensor<2xf32>
    %r = fsdp.all_reduce avg %s over #replicate of @w : tensor<2xf32>
    return
  }
}

// -----

#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  fsdp.state parameter @w : tensor<4xf32> sharded <dim 0 over #shard>
  func.func @"train/step"(%w: tensor<2xf32> {fsdp.state = @w}, %g: tensor<4xf32> {fsdp.input = "g"}) {
    // expected-note @+1 {{first reduction here}}
    %s = fsdp.reduce_scatter avg %g dim 0 over #shard of @w : tensor<4xf32> -> tensor<2xf32>
    // expected-error @+1 {{reduces the gradient of 'w' a second time}}
    %r = fsdp.reduce_scatter avg %g dim 0 over #shard of @w : tensor<4xf32> -> tensor<2xf32>
    return
  }
}

// -----

#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  fsdp.state parameter @w : tensor<4xf32> sharded <dim 0 over #shard>
  func.func @"train/step"(%w: tensor<2xf32> {fsdp.state = @w}, %g: tensor<4xf32> {fsdp.input = "g"}) {
    // expected-error @+1 {{expects a gradient to be averaged, found sum}}
    %s = fsdp.reduce_scatter sum %g dim 0 over #shard of @w : tensor<4xf32> -> tensor<2xf32>
    return
  }
}

// -----

#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  fsdp.state frozen @w : tensor<4xf32> sharded <dim 0 over #shard>
  func.func @"train/step"(%w: tensor<2xf32> {fsdp.state = @w}, %g: tensor<4xf32> {fsdp.input = "g"}) {
    // expected-error @+1 {{reduces a gradient of 'w', which is no trained parameter}}
    %s = fsdp.reduce_scatter avg %g dim 0 over #shard of @w : tensor<4xf32> -> tensor<2xf32>
    return
  }
}

// -----

// cos(0) is 1: padding rows would no longer be zero. A gathered tensor has none.

#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  fsdp.state frozen @w : tensor<3xf32> sharded <dim 0 over #shard>
  func.func @"train/step"(%w: tensor<2xf32> {fsdp.state = @w}) {
    %f = fsdp.all_gather %w dim 0 over #shard : tensor<2xf32> -> tensor<3xf32>
    %0 = aten.cos(%f) : (tensor<3xf32>) -> tensor<3xf32>
    // expected-error @+1 {{reads a shard, whose padding rows it may change; expected casts, collectives, norms and optimizers only}}
    %1 = aten.cos(%w) : (tensor<2xf32>) -> tensor<2xf32>
    return
  }
}

// -----

#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  fsdp.state parameter @w : tensor<4xf32> sharded <dim 0 over #shard>
  fsdp.state scalar @lr : tensor<f32>
  func.func @"train/step"(%w: tensor<2xf32> {fsdp.state = @w}, %lr: tensor<f32> {fsdp.state = @lr}, %g: tensor<4xf32> {fsdp.input = "g"})
      -> (tensor<2xf32> {fsdp.state = @w}) {
    %s = fsdp.reduce_scatter avg %g dim 0 over #shard of @w : tensor<4xf32> -> tensor<2xf32>
    // expected-error @+1 {{updates 'w' with something else than its reduced gradient}}
    %new = fsdp.sgd params(%w) grads(%w) momentum_buffers() lr %lr momentum 0.0 weight_decay 0.0 : tensor<2xf32>
    return %new : tensor<2xf32>
  }
}

// -----

#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  fsdp.state parameter @w : tensor<4xf32> sharded <dim 0 over #shard>
  fsdp.state scalar @lr : tensor<f32>
  func.func @"train/step"(%w: tensor<2xf32> {fsdp.state = @w}, %lr: tensor<f32> {fsdp.state = @lr}, %g: tensor<4xf32> {fsdp.input = "g"})
      -> (tensor<2xf32> {fsdp.state = @w}) {
    %s = fsdp.reduce_scatter avg %g dim 0 over #shard of @w : tensor<4xf32> -> tensor<2xf32>
    // expected-error @+1 {{computes a new 'w' that is not returned as its value}}
    %new = fsdp.sgd params(%w) grads(%s) momentum_buffers() lr %lr momentum 0.0 weight_decay 0.0 : tensor<2xf32>
    return %w : tensor<2xf32>
  }
}

// -----

// One of two parameters is forgotten.

module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>} {
  fsdp.state parameter @w : tensor<4xf32>
  // expected-error @+1 {{expects to be updated by an optimizer}}
  fsdp.state parameter @v : tensor<4xf32>
  fsdp.state scalar @lr : tensor<f32>
  func.func @"train/step"(%w: tensor<4xf32> {fsdp.state = @w}, %v: tensor<4xf32> {fsdp.state = @v}, %lr: tensor<f32> {fsdp.state = @lr}, %g: tensor<4xf32> {fsdp.input = "g"})
      -> (tensor<4xf32> {fsdp.state = @w}) {
    %new = fsdp.sgd params(%w) grads(%g) momentum_buffers() lr %lr momentum 0.0 weight_decay 0.0 : tensor<4xf32>
    return %new : tensor<4xf32>
  }
}

// -----

module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>} {
  fsdp.state parameter @w : tensor<4xf32>
  fsdp.state scalar @lr : tensor<f32>
  func.func @"train/step"(%w: tensor<4xf32> {fsdp.state = @w}, %lr: tensor<f32> {fsdp.state = @lr}, %g: tensor<4xf32> {fsdp.input = "g"})
      -> (tensor<4xf32> {fsdp.state = @w}) {
    // expected-note @+1 {{first update here}}
    %new = fsdp.sgd params(%w) grads(%g) momentum_buffers() lr %lr momentum 0.0 weight_decay 0.0 : tensor<4xf32>
    // expected-error @+1 {{updates a parameter a second time}}
    %again = fsdp.sgd params(%w) grads(%g) momentum_buffers() lr %lr momentum 0.0 weight_decay 0.5 : tensor<4xf32>
    return %new : tensor<4xf32>
  }
}

// -----

#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  func.func @"train/step"(%x: tensor<2xf32> {fsdp.input = "x"}) {
    // expected-error @+1 {{belongs to a later stage; expected logical collectives only}}
    %f = fsdp.all_gather.start "a"(%x) dims [0] over #shard on gather : tensor<2xf32> -> !fsdp.future<tensor<4xf32>>
    return
  }
}

// -----

// A program for inference trains nothing, even if the module's other programs do.

#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  fsdp.state parameter @w : tensor<4xf32> sharded <dim 0 over #shard>
  func.func @"infer/step"(%w: tensor<2xf32> {fsdp.state = @w}) -> (tensor<4xf32> {fsdp.output = "w"}) {
    %f = fsdp.all_gather %w dim 0 over #shard : tensor<2xf32> -> tensor<4xf32>
    return %f : tensor<4xf32>
  }
}

// -----

#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  fsdp.state parameter @w : tensor<4xf32> sharded <dim 0 over #shard>
  func.func @"infer/step"(%w: tensor<2xf32> {fsdp.state = @w}, %g: tensor<4xf32> {fsdp.input = "g"}) -> (tensor<4xf32> {fsdp.output = "g"}) {
    // expected-error @+1 {{reduces a gradient in a program for inference}}
    %s = fsdp.reduce_scatter avg %g dim 0 over #shard of @w : tensor<4xf32> -> tensor<2xf32>
    return %g : tensor<4xf32>
  }
}

// -----

#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  fsdp.state parameter @w : tensor<4xf32> sharded <dim 0 over #shard>
  fsdp.state scalar @lr : tensor<f32>
  func.func @"infer/step"(%w: tensor<2xf32> {fsdp.state = @w}, %lr: tensor<f32> {fsdp.state = @lr}, %s: tensor<2xf32> {fsdp.input = "s"})
      -> (tensor<2xf32> {fsdp.state = @w}) {
    // expected-error @+1 {{updates parameters in a program for inference}}
    %new = fsdp.sgd params(%w) grads(%s) momentum_buffers() lr %lr momentum 0.0 weight_decay 0.0 : tensor<2xf32>
    return %new : tensor<2xf32>
  }
}
