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
    %new = fsdp.update sgd params(%w) grads(%s) momentum_buffers() lr %lr momentum 0.0 weight_decay 0.0 : tensor<2xf32>
    return %new : tensor<2xf32>
  }
}

// -----

// expected-error @+1 {{expects a sharded program; run fsdp-shard-parameters first}}
module {
}

// -----

module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  // expected-error @+1 {{expects its gradient to be reduced over 2 ranks of 'shard', found no ranks}}
  fsdp.state parameter @w : tensor<4xf32>
  func.func @"train/step"(%w: tensor<4xf32> {fsdp.state = @w}) {
    return
  }
}

// -----

// A gradient that every rank keeps for itself.

module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  fsdp.state parameter @w : tensor<4xf32> gradient <local>
  func.func @"train/step"(%w: tensor<4xf32> {fsdp.state = @w}) {
    return
  }
}

// -----

// A mesh of another kind.

// expected-error @+1 {{expects a mesh with the axis 'shard', or with 'replicate' and 'shard', found #fsdp.mesh<pipeline = 2, shard = 2>}}
module attributes {fsdp.mesh = #fsdp.mesh<pipeline = 2, shard = 2>} {
}

// -----

// Shards that are not added up across the replicas.

#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<replicate = 3, shard = 2>} {
  // expected-error @+1 {{expects its gradient to be reduced over 2 ranks of 'shard' and 3 ranks of 'replicate', found 2 ranks of 'shard'}}
  fsdp.state parameter @w : tensor<4xf32> sharded <dim 0 over #shard>
  func.func @"train/step"(%w: tensor<2xf32> {fsdp.state = @w}, %g: tensor<4xf32> {fsdp.input = "g"}) {
    %s = fsdp.reduce_scatter avg %g dim 0 over #shard of @w : tensor<4xf32> -> tensor<2xf32>
    return
  }
}

// -----

// Two axes: the shards' group, then the replicas'.

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
  // expected-error @+1 {{expects the sum of its gradient over ranks to be divided by 2, found 1}}
  fsdp.state parameter @w : tensor<4xf32> sharded <dim 0 over #shard>
  func.func @"train/step"(%w: tensor<2xf32> {fsdp.state = @w}, %g: tensor<4xf32> {fsdp.input = "g"}) {
    // expected-note @+1 {{the last reduction}}
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

// What lies between two shards has padding rows of zero, too; between one and
// another tensor it need not.

#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  fsdp.state frozen @w : tensor<3xf32> sharded <dim 0 over #shard>
  fsdp.state frozen @v : tensor<3xf32> sharded <dim 0 over #shard>
  func.func @"train/step"(%w: tensor<2xf32> {fsdp.state = @w}, %v: tensor<2xf32> {fsdp.state = @v}, %x: tensor<2xf32> {fsdp.input = "x"}, %n: tensor<f32> {fsdp.input = "n"}) {
    %0 = aten.lerp.Tensor(%w, %v, %n) : (tensor<2xf32>, tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
    // expected-error @+1 {{reads a shard, whose padding rows it may change}}
    %1 = aten.lerp.Tensor(%w, %x, %n) : (tensor<2xf32>, tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
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
    %new = fsdp.update sgd params(%w) grads(%w) momentum_buffers() lr %lr momentum 0.0 weight_decay 0.0 : tensor<2xf32>
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
    %new = fsdp.update sgd params(%w) grads(%s) momentum_buffers() lr %lr momentum 0.0 weight_decay 0.0 : tensor<2xf32>
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
    %new = fsdp.update sgd params(%w) grads(%g) momentum_buffers() lr %lr momentum 0.0 weight_decay 0.0 : tensor<4xf32>
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
    %new = fsdp.update sgd params(%w) grads(%g) momentum_buffers() lr %lr momentum 0.0 weight_decay 0.0 : tensor<4xf32>
    // expected-error @+1 {{updates a parameter a second time}}
    %again = fsdp.update sgd params(%w) grads(%g) momentum_buffers() lr %lr momentum 0.0 weight_decay 0.5 : tensor<4xf32>
    return %new : tensor<4xf32>
  }
}

// -----

#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  func.func @"train/step"(%x: tensor<2xf32> {fsdp.input = "x"}) {
    // expected-error @+1 {{belongs to a later stage; expected logical collectives only}}
    %f = fsdp.start all_gather "a"(%x) dims [0] over #shard on gather : tensor<2xf32> -> !fsdp.future<tensor<4xf32>>
    return
  }
}

// -----

// A program for inference trains nothing, even if the module's other programs do.

#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  fsdp.state parameter @w : tensor<4xf32> sharded <dim 0 over #shard>
  func.func @"infer/step"(%w: tensor<2xf32> {fsdp.state = @w}) -> (tensor<4xf32> {fsdp.output = "w"}) attributes {fsdp.program = #fsdp.program<kind = infer>} {
    %f = fsdp.all_gather %w dim 0 over #shard : tensor<2xf32> -> tensor<4xf32>
    return %f : tensor<4xf32>
  }
}

// -----

#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  fsdp.state parameter @w : tensor<4xf32> sharded <dim 0 over #shard>
  func.func @"infer/step"(%w: tensor<2xf32> {fsdp.state = @w}, %g: tensor<4xf32> {fsdp.input = "g"}) -> (tensor<4xf32> {fsdp.output = "g"}) attributes {fsdp.program = #fsdp.program<kind = infer>} {
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
      -> (tensor<2xf32> {fsdp.state = @w}) attributes {fsdp.program = #fsdp.program<kind = infer>} {
    // expected-error @+1 {{updates parameters in a program for inference}}
    %new = fsdp.update sgd params(%w) grads(%s) momentum_buffers() lr %lr momentum 0.0 weight_decay 0.0 : tensor<2xf32>
    return %new : tensor<2xf32>
  }
}

// -----

// Divisors in front of the sum and behind it are as good as averages.

#shard = #fsdp.group<"shard", 4>
#replicate = #fsdp.group<"replicate", 2 : 4>
module attributes {fsdp.mesh = #fsdp.mesh<replicate = 2, shard = 4>} {
  fsdp.state parameter @w : tensor<8xf32> sharded <dim 0 over #shard>
  func.func @"train/step"(%w: tensor<2xf32> {fsdp.state = @w}, %g: tensor<8xf32> {fsdp.input = "g"}) {
    %s = fsdp.reduce_scatter sum %g pre 4.0 dim 0 over #shard of @w : tensor<8xf32> -> tensor<2xf32>
    %r = fsdp.all_reduce sum %s post 2.0 over #replicate of @w : tensor<2xf32>
    return
  }
}

// -----

// The module says by what else they are divided.

#shard = #fsdp.group<"shard", 4>
module attributes {fsdp.gradient_divide_factor = 6.0 : f64, fsdp.mesh = #fsdp.mesh<shard = 4>} {
  fsdp.state parameter @w : tensor<8xf32> sharded <dim 0 over #shard>
  // expected-error @+1 {{expects the sum of its gradient over ranks to be divided by 6, found 4}}
  fsdp.state parameter @v : tensor<8xf32> sharded <dim 0 over #shard>
  func.func @"train/step"(%w: tensor<2xf32> {fsdp.state = @w}, %v: tensor<2xf32> {fsdp.state = @v}, %g: tensor<8xf32> {fsdp.input = "g"}) {
    %s = fsdp.reduce_scatter sum %g pre 6.0 dim 0 over #shard of @w : tensor<8xf32> -> tensor<2xf32>
    // expected-note @+1 {{the last reduction}}
    %r = fsdp.reduce_scatter avg %g dim 0 over #shard of @v : tensor<8xf32> -> tensor<2xf32>
    return
  }
}

// -----

// A gradient is reduced in the type that its state names, and gets its own behind.

#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  fsdp.state parameter @w : tensor<4xf32> sharded <dim 0 over #shard> gradient <reduce bf16>
  fsdp.state scalar @lr : tensor<f32>
  func.func @"train/step"(%w: tensor<2xf32> {fsdp.state = @w}, %lr: tensor<f32> {fsdp.state = @lr}, %g: tensor<4xbf16> {fsdp.input = "g"})
      -> (tensor<2xf32> {fsdp.state = @w}) {
    %s = fsdp.reduce_scatter avg %g dim 0 over #shard of @w : tensor<4xbf16> -> tensor<2xbf16>
    %c = aten._to_copy(%s, dtype = f32) : (tensor<2xbf16>) -> tensor<2xf32>
    %new = fsdp.update sgd params(%w) grads(%c) momentum_buffers() lr %lr momentum 0.0 weight_decay 0.0 : tensor<2xf32>
    return %new : tensor<2xf32>
  }
}

// -----

// A step of several micro-batches: left, added to, averaged.

#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>, fsdp.micro_batches = 3 : i64} {
  fsdp.state parameter @w : tensor<4xf32> sharded <dim 0 over #shard>
  fsdp.state gradient @"w/gradient" of @w : tensor<4xf32> sharded <dim 0 over #shard>
  fsdp.state scalar @lr : tensor<f32>
  func.func @"train/first"(%w: tensor<2xf32> {fsdp.state = @w}, %sum: tensor<2xf32> {fsdp.state = @"w/gradient"}, %g: tensor<4xf32> {fsdp.input = "g"})
      -> (tensor<2xf32> {fsdp.state = @"w/gradient"}) attributes {fsdp.program = #fsdp.program<part = first>} {
    %s = fsdp.reduce_scatter avg %g dim 0 over #shard of @w : tensor<4xf32> -> tensor<2xf32>
    return %s : tensor<2xf32>
  }
  func.func @"train/middle"(%w: tensor<2xf32> {fsdp.state = @w}, %sum: tensor<2xf32> {fsdp.state = @"w/gradient"}, %g: tensor<4xf32> {fsdp.input = "g"})
      -> (tensor<2xf32> {fsdp.state = @"w/gradient"}) attributes {fsdp.program = #fsdp.program<part = middle>} {
    %s = fsdp.reduce_scatter avg %g dim 0 over #shard of @w : tensor<4xf32> -> tensor<2xf32>
    %n = fsdp.accumulate %s into %sum of @w : tensor<2xf32>, tensor<2xf32>
    return %n : tensor<2xf32>
  }
  func.func @"train/last"(%w: tensor<2xf32> {fsdp.state = @w}, %sum: tensor<2xf32> {fsdp.state = @"w/gradient"}, %lr: tensor<f32> {fsdp.state = @lr}, %g: tensor<4xf32> {fsdp.input = "g"})
      -> (tensor<2xf32> {fsdp.state = @w}) attributes {fsdp.program = #fsdp.program<part = last>} {
    %s = fsdp.reduce_scatter avg %g dim 0 over #shard of @w : tensor<4xf32> -> tensor<2xf32>
    %n = fsdp.accumulate %s into %sum of @w divide 3 : tensor<2xf32>, tensor<2xf32>
    %new = fsdp.update sgd params(%w) grads(%n) momentum_buffers() lr %lr momentum 0.0 weight_decay 0.0 : tensor<2xf32>
    return %new : tensor<2xf32>
  }
}

// -----

#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  fsdp.state parameter @w : tensor<4xf32> sharded <dim 0 over #shard> gradient <reduce bf16>
  func.func @"train/step"(%w: tensor<2xf32> {fsdp.state = @w}, %g: tensor<4xf32> {fsdp.input = "g"}) {
    // expected-error @+1 {{expects the gradient of 'w' to be reduced in 'bf16', found 'f32'; run fsdp-move-casts-to-shards behind fsdp-shard-parameters}}
    %s = fsdp.reduce_scatter avg %g dim 0 over #shard of @w : tensor<4xf32> -> tensor<2xf32>
    return
  }
}

// -----

module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>} {
  fsdp.state parameter @w : tensor<4xf32>
  fsdp.state gradient @"w/gradient" of @w : tensor<4xf32>
  func.func @"train/step"(%w: tensor<4xf32> {fsdp.state = @w}, %sum: tensor<4xf32> {fsdp.state = @"w/gradient"}, %g: tensor<4xf32> {fsdp.input = "g"}) {
    // expected-error @+1 {{adds to a running sum in a program that has none to add to}}
    %n = fsdp.accumulate %g into %sum of @w : tensor<4xf32>, tensor<4xf32>
    return
  }
}

// -----

// The mean is of all micro-batches.

module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>, fsdp.micro_batches = 3 : i64} {
  fsdp.state parameter @w : tensor<4xf32>
  fsdp.state gradient @"w/gradient" of @w : tensor<4xf32>
  func.func @"train/last"(%w: tensor<4xf32> {fsdp.state = @w}, %sum: tensor<4xf32> {fsdp.state = @"w/gradient"}, %g: tensor<4xf32> {fsdp.input = "g"}) attributes {fsdp.program = #fsdp.program<part = last>} {
    // expected-error @+1 {{expects to divide by 3, found 2}}
    %n = fsdp.accumulate %g into %sum of @w divide 2 : tensor<4xf32>, tensor<4xf32>
    return
  }
}

// -----

module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>, fsdp.micro_batches = 2 : i64} {
  // expected-error @+1 {{expects its gradient to be added to those of other micro-batches in 'train/last'}}
  fsdp.state parameter @w : tensor<4xf32>
  func.func @"train/last"(%w: tensor<4xf32> {fsdp.state = @w}, %g: tensor<4xf32> {fsdp.input = "g"})
      -> (tensor<4xf32> {fsdp.gradient = @w}) attributes {fsdp.program = #fsdp.program<part = last>} {
    return %g : tensor<4xf32>
  }
}

// -----

module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>, fsdp.micro_batches = 2 : i64} {
  // expected-error @+1 {{expects the sum of its gradients to be left in its state by all but the last program, found otherwise in 'train/first'}}
  fsdp.state parameter @w : tensor<4xf32>
  func.func @"train/first"(%w: tensor<4xf32> {fsdp.state = @w}, %g: tensor<4xf32> {fsdp.input = "g"}) attributes {fsdp.program = #fsdp.program<part = first>} {
    return
  }
}

// -----

// Another parameter's sum.

module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>, fsdp.micro_batches = 2 : i64} {
  fsdp.state parameter @v : tensor<4xf32>
  fsdp.state parameter @w : tensor<4xf32>
  fsdp.state gradient @"w/gradient" of @w : tensor<4xf32>
  func.func @"train/last"(%v: tensor<4xf32> {fsdp.state = @v}, %sum: tensor<4xf32> {fsdp.state = @"w/gradient"}, %g: tensor<4xf32> {fsdp.input = "g"}) attributes {fsdp.program = #fsdp.program<part = last>} {
    // expected-error @+1 {{expects to add a gradient of 'v' to a state of role 'gradient' of it}}
    %n = fsdp.accumulate %g into %sum of @v divide 2 : tensor<4xf32>, tensor<4xf32>
    return
  }
}

// -----

// Whole gradients are no part of a sum of reduced ones.

#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>, fsdp.micro_batches = 2 : i64} {
  fsdp.state parameter @w : tensor<4xf32>
  fsdp.state gradient @"w/gradient" of @w : tensor<4xf32>
  func.func @"train/first"(%w: tensor<4xf32> {fsdp.state = @w}, %sum: tensor<4xf32> {fsdp.state = @"w/gradient"}, %g: tensor<4xf32> {fsdp.input = "g"})
      -> (tensor<4xf32> {fsdp.state = @"w/gradient"}) attributes {fsdp.program = #fsdp.program<part = first>} {
    %s = fsdp.all_reduce avg %g over #shard of @w : tensor<4xf32>
    return %s : tensor<4xf32>
  }
  func.func @"train/last"(%w: tensor<4xf32> {fsdp.state = @w}, %sum: tensor<4xf32> {fsdp.state = @"w/gradient"}, %g: tensor<4xf32> {fsdp.input = "g"})
      -> (tensor<4xf32> {fsdp.gradient = @w}) attributes {fsdp.program = #fsdp.program<part = last>} {
    // expected-error @+1 {{sums in 'w/gradient' what went through 0 reductions, where other programs sum what went through 1}}
    %n = fsdp.accumulate %g into %sum of @w divide 2 : tensor<4xf32>, tensor<4xf32>
    %s = fsdp.all_reduce avg %n over #shard of @w : tensor<4xf32>
    return %s : tensor<4xf32>
  }
}

// -----

module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>, fsdp.micro_batches = 2 : i64} {
  fsdp.state parameter @w : tensor<4xf32>
  fsdp.state gradient @"w/gradient" of @w : tensor<4xf32>
  fsdp.state scalar @lr : tensor<f32>
  func.func @"train/first"(%w: tensor<4xf32> {fsdp.state = @w}, %sum: tensor<4xf32> {fsdp.state = @"w/gradient"}, %lr: tensor<f32> {fsdp.state = @lr}, %g: tensor<4xf32> {fsdp.input = "g"})
      -> (tensor<4xf32> {fsdp.state = @"w/gradient"}, tensor<4xf32> {fsdp.state = @w}) attributes {fsdp.program = #fsdp.program<part = first>} {
    // expected-error @+1 {{updates parameters before the last micro-batch}}
    %new = fsdp.update sgd params(%w) grads(%g) momentum_buffers() lr %lr momentum 0.0 weight_decay 0.0 : tensor<4xf32>
    return %g, %new : tensor<4xf32>, tensor<4xf32>
  }
}

// -----

// What reductions leave to the optimizer must be divided there, and once.

#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>, fsdp.optimizer_divisor = 2.0 : f64} {
  fsdp.state parameter @w : tensor<4xf32> sharded <dim 0 over #shard>
  fsdp.state scalar @lr : tensor<f32>
  func.func @"train/step"(%w: tensor<2xf32> {fsdp.state = @w}, %lr: tensor<f32> {fsdp.state = @lr}, %g: tensor<4xf32> {fsdp.input = "g"})
      -> (tensor<2xf32> {fsdp.state = @w}) {
    %s = fsdp.reduce_scatter sum %g dim 0 over #shard of @w : tensor<4xf32> -> tensor<2xf32>
    // expected-error @+1 {{expects a grad_scale, since reductions leave a division by 2 to it}}
    %new = fsdp.update sgd params(%w) grads(%s) momentum_buffers() lr %lr momentum 0.0 weight_decay 0.0 : tensor<2xf32>
    return %new : tensor<2xf32>
  }
}

// -----

#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>, fsdp.optimizer_divisor = 2.0 : f64} {
  // expected-error @+1 {{expects the sum of its gradient over ranks to be divided by 1, found 2}}
  fsdp.state parameter @w : tensor<4xf32> sharded <dim 0 over #shard>
  func.func @"train/step"(%w: tensor<2xf32> {fsdp.state = @w}, %g: tensor<4xf32> {fsdp.input = "g"})
      -> (tensor<2xf32> {fsdp.gradient = @w}) {
    // expected-note @+1 {{the last reduction}}
    %s = fsdp.reduce_scatter avg %g dim 0 over #shard of @w : tensor<4xf32> -> tensor<2xf32>
    return %s : tensor<2xf32>
  }
}

// -----

module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>, fsdp.optimizer_divisor = 2.0 : f64} {
  // expected-error @+1 {{is each rank's own, so the optimizer must not divide its gradient by 2}}
  fsdp.state parameter @w : tensor<4xf32> gradient <local>
  func.func @"train/step"(%w: tensor<4xf32> {fsdp.state = @w}) {
    return
  }
}

// -----

// expected-error @+1 {{'fsdp.optimizer_divisor' expects a module and a number}}
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>, fsdp.optimizer_divisor = "2"} {
}
