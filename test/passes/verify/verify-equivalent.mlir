// A program may compute in another order, twice, through collectives, and more
// than what was captured; nothing else.
//
// RUN: fsdp-opt %s --fsdp-verify-equivalent --split-input-file --verify-diagnostics
//
// The reference may stand in a file.
//
// RUN: fsdp-opt %stages/2-sharded.mlir --fsdp-verify-equivalent=to=%stages/1-captured.mlir
// RUN: fsdp-opt %stages/2b-recompute.mlir --fsdp-verify-equivalent=to=%stages/1-captured.mlir
// RUN: fsdp-opt %stages/3-scheduled.mlir --fsdp-verify-equivalent=to=%stages/1-captured.mlir
// RUN: fsdp-opt %stages/4-planned.mlir --fsdp-verify-equivalent=to=%stages/1-captured.mlir
//
// Changes that MLIR's verifier accepts: another operand, another argument,
// another gradient, swapped gradients.
//
// RUN: sed 's/aten.mm(%22, %7)/aten.mm(%22, %6)/' %stages/2-sharded.mlir | not fsdp-opt --fsdp-verify-equivalent=to=%stages/1-captured.mlir 2>&1 | FileCheck %s --check-prefix=OPERAND
// RUN: sed 's/reduction = 1/reduction = 2/' %stages/3-scheduled.mlir | not fsdp-opt --fsdp-verify-equivalent=to=%stages/1-captured.mlir 2>&1 | FileCheck %s --check-prefix=ARGUMENT
// RUN: sed 's/aten.relu/aten.selu/' %stages/3-scheduled.mlir | not fsdp-opt --fsdp-verify-equivalent=to=%stages/1-captured.mlir 2>&1 | FileCheck %s --check-prefix=LOSS
// RUN: sed 's/start all_reduce avg "metrics"(%12, %29)/start all_reduce avg "metrics"(%29, %29)/' %stages/3-scheduled.mlir | not fsdp-opt --fsdp-verify-equivalent=to=%stages/1-captured.mlir 2>&1 | FileCheck %s --check-prefix=METRIC
//
// OPERAND:  the gradient of 'fc2.weight' differs from what was captured
// OPERAND:  note: the first op that differs is aten.mm
// OPERAND:  note: captured as the result of aten._to_copy
// ARGUMENT: the gradient of 'fc{{[12]}}.weight' differs from what was captured
// ARGUMENT: note: the first op that differs is aten.mse_loss_backward
// LOSS:     differs from what was captured
// LOSS:     note: the first op that differs is aten.selu
// METRIC:   the output 'loss' differs from what was captured

#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  fsdp.state parameter @w : tensor<4xf32> sharded <dim 0 over #shard>
  fsdp.state buffer @b : tensor<4xf32>
  func.func @"reference/step"(%w: tensor<4xf32> {fsdp.state = @w}, %b: tensor<4xf32> {fsdp.state = @b}, %x: tensor<4xf32> {fsdp.input = "x"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<4xf32> {fsdp.state = @b}, tensor<4xf32> {fsdp.gradient = @w}) attributes {fsdp.program = #fsdp.program<reference = true>, fsdp.captured} {
    %p = aten.mul.Tensor(%w, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %l = aten.sum(%p) : (tensor<4xf32>) -> tensor<f32>
    %n = aten.neg(%b) : (tensor<4xf32>) -> tensor<4xf32>
    return %l, %n, %x : tensor<f32>, tensor<4xf32>, tensor<4xf32>
  }
  func.func @"train/step"(%x: tensor<4xf32> {fsdp.input = "x"}, %b: tensor<4xf32> {fsdp.state = @b}, %w: tensor<2xf32> {fsdp.state = @w})
      -> (tensor<4xf32> {fsdp.state = @b}, tensor<f32> {fsdp.output = "loss"}, tensor<f32> {fsdp.output = "grad_norm"}) {
    %dead = aten.neg(%x) : (tensor<4xf32>) -> tensor<4xf32>
    %n = aten.neg(%b) : (tensor<4xf32>) -> tensor<4xf32>
    %f = fsdp.all_gather %w dim 0 over #shard : tensor<2xf32> -> tensor<4xf32>
    %r = fsdp.replay %w : tensor<2xf32>
    %g = fsdp.all_gather %r dim 0 over #shard : tensor<2xf32> -> tensor<4xf32>
    %0 = aten.mul.Tensor(%f, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %p = aten.mul.Tensor(%g, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %l = aten.sum(%p) : (tensor<4xf32>) -> tensor<f32>
    %a = fsdp.all_reduce avg %l over #shard for metric : tensor<f32>
    %s = fsdp.reduce_scatter avg %x dim 0 over #shard of @w : tensor<4xf32> -> tensor<2xf32>
    return %n, %a, %a : tensor<4xf32>, tensor<f32>, tensor<f32>
  }
}

// -----

// Without collectives the optimizer's operand is the gradient.

module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>} {
  fsdp.state parameter @w : tensor<4xf32>
  fsdp.state scalar @lr : tensor<f32>
  func.func @"reference/step"(%w: tensor<4xf32> {fsdp.state = @w}, %x: tensor<4xf32> {fsdp.input = "x"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<4xf32> {fsdp.gradient = @w}) attributes {fsdp.program = #fsdp.program<reference = true>, fsdp.captured} {
    %l = aten.sum(%x) : (tensor<4xf32>) -> tensor<f32>
    return %l, %x : tensor<f32>, tensor<4xf32>
  }
  func.func @"train/step"(%w: tensor<4xf32> {fsdp.state = @w}, %lr: tensor<f32> {fsdp.state = @lr}, %x: tensor<4xf32> {fsdp.input = "x"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<4xf32> {fsdp.state = @w}) {
    %l = aten.sum(%x) : (tensor<4xf32>) -> tensor<f32>
    // expected-error @+1 {{the gradient of 'w' differs from what was captured}}
    %new = fsdp.update sgd params(%w) grads(%w) momentum_buffers() lr %lr momentum 0.0 weight_decay 0.0 : tensor<4xf32>
    return %l, %new : tensor<f32>, tensor<4xf32>
  }
}

// -----

module {
  fsdp.state parameter @w : tensor<4xf32>
  fsdp.state buffer @b : tensor<4xf32>
  func.func @"reference/step"(%w: tensor<4xf32> {fsdp.state = @w}, %b: tensor<4xf32> {fsdp.state = @b}, %x: tensor<4xf32> {fsdp.input = "x"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<4xf32> {fsdp.state = @b}) attributes {fsdp.program = #fsdp.program<reference = true>, fsdp.captured} {
    %l = aten.sum(%x) : (tensor<4xf32>) -> tensor<f32>
    // expected-note @+1 {{captured here}}
    %n = aten.neg(%b) : (tensor<4xf32>) -> tensor<4xf32>
    return %l, %n : tensor<f32>, tensor<4xf32>
  }
  // expected-error @+1 {{lacks the new value of 'b'}}
  func.func @"train/step"(%w: tensor<4xf32> {fsdp.state = @w}, %b: tensor<4xf32> {fsdp.state = @b}, %x: tensor<4xf32> {fsdp.input = "x"})
      -> (tensor<f32> {fsdp.output = "loss"}) {
    %l = aten.sum(%x) : (tensor<4xf32>) -> tensor<f32>
    return %l : tensor<f32>
  }
}

// -----

module {
  fsdp.state parameter @w : tensor<4xf32>
  func.func @"reference/step"(%w: tensor<4xf32> {fsdp.state = @w}, %x: tensor<4xf32> {fsdp.input = "x"})
      -> (tensor<f32> {fsdp.output = "loss"}) attributes {fsdp.program = #fsdp.program<reference = true>, fsdp.captured} {
    %l = aten.sum(%x) : (tensor<4xf32>) -> tensor<f32>
    return %l : tensor<f32>
  }
  // expected-error @+1 {{has a gradient of 'w' that was not captured}}
  func.func @"train/step"(%w: tensor<4xf32> {fsdp.state = @w}, %x: tensor<4xf32> {fsdp.input = "x"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<4xf32> {fsdp.gradient = @w}) {
    %l = aten.sum(%x) : (tensor<4xf32>) -> tensor<f32>
    return %l, %x : tensor<f32>, tensor<4xf32>
  }
}

// -----

// A draw may be repeated: it is a function of state and site.
module {
  fsdp.state random @"random/state" : tensor<2xi64>
  func.func @"reference/step"(%r: tensor<2xi64> {fsdp.state = @"random/state"}, %x: tensor<4xf32> {fsdp.input = "x"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<2xi64> {fsdp.state = @"random/state"}) attributes {fsdp.program = #fsdp.program<reference = true>, fsdp.captured} {
    %m = fsdp.draw bernoulli with [0.5] site 0 from %r : (tensor<2xi64>) -> tensor<4xf32>
    %p = aten.mul.Tensor(%m, %m) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %l = aten.sum(%p) : (tensor<4xf32>) -> tensor<f32>
    %n = aten.neg(%r) : (tensor<2xi64>) -> tensor<2xi64>
    return %l, %n : tensor<f32>, tensor<2xi64>
  }
  func.func @"train/step"(%r: tensor<2xi64> {fsdp.state = @"random/state"}, %x: tensor<4xf32> {fsdp.input = "x"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<2xi64> {fsdp.state = @"random/state"}) {
    %m = fsdp.draw bernoulli with [0.5] site 0 from %r : (tensor<2xi64>) -> tensor<4xf32>
    %s = fsdp.replay %r : tensor<2xi64>
    %again = fsdp.draw bernoulli with [0.5] site 0 from %s : (tensor<2xi64>) -> tensor<4xf32>
    %p = aten.mul.Tensor(%m, %again) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %l = aten.sum(%p) : (tensor<4xf32>) -> tensor<f32>
    %n = aten.neg(%r) : (tensor<2xi64>) -> tensor<2xi64>
    return %l, %n : tensor<f32>, tensor<2xi64>
  }
}

// -----

// At another site it is another draw, and a state that stays is no new one.
module {
  fsdp.state random @"random/state" : tensor<2xi64>
  func.func @"reference/step"(%r: tensor<2xi64> {fsdp.state = @"random/state"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<2xi64> {fsdp.state = @"random/state"}) attributes {fsdp.program = #fsdp.program<reference = true>, fsdp.captured} {
    // expected-note @+1 {{captured as the result of fsdp.draw}}
    %m = fsdp.draw uniform with [0.0, 1.0] site 0 from %r : (tensor<2xi64>) -> tensor<f32>
    %n = aten.neg(%r) : (tensor<2xi64>) -> tensor<2xi64>
    return %m, %n : tensor<f32>, tensor<2xi64>
  }
  func.func @"train/step"(%r: tensor<2xi64> {fsdp.state = @"random/state"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<2xi64> {fsdp.state = @"random/state"}) {
    // expected-error @+2 {{the output 'loss' differs from what was captured}}
    // expected-note @+1 {{the first op that differs is fsdp.draw}}
    %m = fsdp.draw uniform with [0.0, 1.0] site 1 from %r : (tensor<2xi64>) -> tensor<f32>
    %n = aten.neg(%r) : (tensor<2xi64>) -> tensor<2xi64>
    return %m, %n : tensor<f32>, tensor<2xi64>
  }
}

// -----

module {
  fsdp.state random @"random/state" : tensor<2xi64>
  func.func @"reference/step"(%r: tensor<2xi64> {fsdp.state = @"random/state"}, %x: tensor<f32> {fsdp.input = "x"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<2xi64> {fsdp.state = @"random/state"}) attributes {fsdp.program = #fsdp.program<reference = true>, fsdp.captured} {
    // expected-note @+1 {{captured here}}
    %n = aten.neg(%r) : (tensor<2xi64>) -> tensor<2xi64>
    return %x, %n : tensor<f32>, tensor<2xi64>
  }
  // expected-error @+1 {{lacks the new value of 'random/state'}}
  func.func @"train/step"(%r: tensor<2xi64> {fsdp.state = @"random/state"}, %x: tensor<f32> {fsdp.input = "x"})
      -> (tensor<f32> {fsdp.output = "loss"}) {
    return %x : tensor<f32>
  }
}

// -----

// expected-error @+1 {{expects a captured program to compare with}}
module {
}

// -----

// A metric is the mean of the output that it is called after, and no substitute
// for it.

#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  func.func @"reference/step"(%x: tensor<f32> {fsdp.input = "x"}, %d: tensor<f64> {fsdp.input = "d"})
      -> (tensor<f32> {fsdp.output = "x"}, tensor<f64> {fsdp.output = "d"}) attributes {fsdp.program = #fsdp.program<reference = true>, fsdp.captured} {
    return %x, %d : tensor<f32>, tensor<f64>
  }
  func.func @"infer/step"(%x: tensor<f32> {fsdp.input = "x"}, %d: tensor<f64> {fsdp.input = "d"})
      -> (tensor<f32> {fsdp.output = "x"}, tensor<f64> {fsdp.output = "d"}, tensor<f32> {fsdp.metric = "x"}, tensor<f32> {fsdp.metric = "d"}) attributes {fsdp.program = #fsdp.program<kind = infer>} {
    %c = aten._to_copy(%d, dtype = f32) : (tensor<f64>) -> tensor<f32>
    %m = fsdp.all_reduce avg %x over #shard for metric : tensor<f32>
    %n = fsdp.all_reduce avg %c over #shard for metric : tensor<f32>
    return %x, %d, %m, %n : tensor<f32>, tensor<f64>, tensor<f32>, tensor<f32>
  }
}

// -----

#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  func.func @"reference/step"(%x: tensor<f32> {fsdp.input = "x"}, %y: tensor<f32> {fsdp.input = "y"})
      -> (tensor<f32> {fsdp.output = "x"}) attributes {fsdp.program = #fsdp.program<reference = true>, fsdp.captured} {
    return %x : tensor<f32>
  }
  func.func @"infer/step"(%x: tensor<f32> {fsdp.input = "x"}, %y: tensor<f32> {fsdp.input = "y"})
      -> (tensor<f32> {fsdp.output = "x"}, tensor<f32> {fsdp.metric = "x"}) attributes {fsdp.program = #fsdp.program<kind = infer>} {
    // expected-error @+1 {{the output 'x' differs from what was captured}}
    %m = fsdp.all_reduce avg %y over #shard for metric : tensor<f32>
    return %x, %m : tensor<f32>, tensor<f32>
  }
}

// -----

#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  // expected-note @+1 {{captured here}}
  func.func @"reference/step"(%x: tensor<f32> {fsdp.input = "x"}) -> (tensor<f32> {fsdp.output = "x"}) attributes {fsdp.program = #fsdp.program<reference = true>, fsdp.captured} {
    return %x : tensor<f32>
  }
  // expected-error @+1 {{lacks the output 'x'}}
  func.func @"infer/step"(%x: tensor<f32> {fsdp.input = "x"}) -> (tensor<f32> {fsdp.metric = "x"}) attributes {fsdp.program = #fsdp.program<kind = infer>} {
    %m = fsdp.all_reduce avg %x over #shard for metric : tensor<f32>
    return %m : tensor<f32>
  }
}

// -----

// A running sum of micro-batches stands for what this one adds, and a parameter
// that stays gathered for what the first program left, padding aside.

#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>, fsdp.micro_batches = 2 : i64} {
  fsdp.state parameter @w : tensor<3xf32> sharded <dim 0 over #shard>
  fsdp.state gathered @"w/gathered" of @w : tensor<4xf32>
  fsdp.state gradient @"w/gradient" of @w : tensor<3xf32>
  fsdp.state scalar @"loss/sum" : tensor<f32>
  func.func @"reference/step"(%w: tensor<3xf32> {fsdp.state = @w}, %x: tensor<3xf32> {fsdp.input = "x"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<3xf32> {fsdp.gradient = @w}) attributes {fsdp.program = #fsdp.program<reference = true>, fsdp.captured} {
    %p = aten.mul.Tensor(%w, %x) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %l = aten.sum(%p) : (tensor<3xf32>) -> tensor<f32>
    return %l, %p : tensor<f32>, tensor<3xf32>
  }
  func.func @"train/first"(%w: tensor<2xf32> {fsdp.state = @w}, %k: tensor<4xf32> {fsdp.state = @"w/gathered"}, %s: tensor<3xf32> {fsdp.state = @"w/gradient"}, %ls: tensor<f32> {fsdp.state = @"loss/sum"}, %x: tensor<3xf32> {fsdp.input = "x"})
      -> (tensor<f32> {fsdp.output = "loss", fsdp.state = @"loss/sum"}, tensor<3xf32> {fsdp.state = @"w/gradient"}, tensor<4xf32> {fsdp.state = @"w/gathered"}) attributes {fsdp.program = #fsdp.program<part = first>} {
    %a = fsdp.all_gather %w dim 0 over #shard : tensor<2xf32> -> tensor<4xf32>
    %f = aten.slice.Tensor(%a, end = 3, start = 0) : (tensor<4xf32>) -> tensor<3xf32>
    %p = aten.mul.Tensor(%f, %x) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %l = aten.sum(%p) : (tensor<3xf32>) -> tensor<f32>
    return %l, %p, %a : tensor<f32>, tensor<3xf32>, tensor<4xf32>
  }
  func.func @"train/last"(%w: tensor<2xf32> {fsdp.state = @w}, %k: tensor<4xf32> {fsdp.state = @"w/gathered"}, %s: tensor<3xf32> {fsdp.state = @"w/gradient"}, %ls: tensor<f32> {fsdp.state = @"loss/sum"}, %x: tensor<3xf32> {fsdp.input = "x"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<2xf32> {fsdp.gradient = @w}) attributes {fsdp.program = #fsdp.program<part = last>} {
    %f = aten.slice.Tensor(%k, end = 3, start = 0) : (tensor<4xf32>) -> tensor<3xf32>
    %p = aten.mul.Tensor(%f, %x) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %l = aten.sum(%p) : (tensor<3xf32>) -> tensor<f32>
    %ln = fsdp.accumulate %l into %ls divide 2 : tensor<f32>, tensor<f32>
    %n = fsdp.accumulate %p into %s of @w divide 2 : tensor<3xf32>, tensor<3xf32>
    %r = fsdp.reduce_scatter avg %n dim 0 over #shard of @w : tensor<3xf32> -> tensor<2xf32>
    return %ln, %r : tensor<f32>, tensor<2xf32>
  }
}

// -----

// Not with its padding, not a part of it, not before anybody gathered it.

#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>, fsdp.micro_batches = 2 : i64} {
  fsdp.state parameter @w : tensor<3xf32> sharded <dim 0 over #shard>
  fsdp.state gathered @"w/gathered" of @w : tensor<4xf32>
  func.func @"reference/step"(%w: tensor<3xf32> {fsdp.state = @w}) -> (tensor<f32> {fsdp.output = "loss"}) attributes {fsdp.program = #fsdp.program<reference = true>, fsdp.captured} {
    // expected-note @+1 {{captured as the result of aten.sum}}
    %l = aten.sum(%w) : (tensor<3xf32>) -> tensor<f32>
    return %l : tensor<f32>
  }
  func.func @"train/first"(%w: tensor<2xf32> {fsdp.state = @w}, %k: tensor<4xf32> {fsdp.state = @"w/gathered"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<4xf32> {fsdp.state = @"w/gathered"}) attributes {fsdp.program = #fsdp.program<part = first>} {
    %a = fsdp.all_gather %w dim 0 over #shard : tensor<2xf32> -> tensor<4xf32>
    // expected-error @+2 {{the output 'loss' differs from what was captured}}
    // expected-note @+1 {{the first op that differs is aten.sum}}
    %l = aten.sum(%a) : (tensor<4xf32>) -> tensor<f32>
    return %l, %a : tensor<f32>, tensor<4xf32>
  }
}

// -----

#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>, fsdp.micro_batches = 2 : i64} {
  fsdp.state parameter @w : tensor<3xf32> sharded <dim 0 over #shard>
  fsdp.state gathered @"w/gathered" of @w : tensor<4xf32>
  func.func @"reference/step"(%w: tensor<3xf32> {fsdp.state = @w}) -> (tensor<f32> {fsdp.output = "loss"}) attributes {fsdp.program = #fsdp.program<reference = true>, fsdp.captured} {
    // expected-note @+1 {{captured as the result of aten.sum}}
    %l = aten.sum(%w) : (tensor<3xf32>) -> tensor<f32>
    return %l : tensor<f32>
  }
  func.func @"train/last"(%w: tensor<2xf32> {fsdp.state = @w}, %k: tensor<4xf32> {fsdp.state = @"w/gathered"})
      -> (tensor<f32> {fsdp.output = "loss"}) attributes {fsdp.program = #fsdp.program<part = last>} {
    // expected-note @+1 {{the first op that differs is aten.slice.Tensor}}
    %f = aten.slice.Tensor(%k, end = 3, start = 0) : (tensor<4xf32>) -> tensor<3xf32>
    // expected-error @+1 {{the output 'loss' differs from what was captured}}
    %l = aten.sum(%f) : (tensor<3xf32>) -> tensor<f32>
    return %l : tensor<f32>
  }
}

// -----

// A sum of something else is none of the gradients.

module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>, fsdp.micro_batches = 2 : i64} {
  fsdp.state parameter @w : tensor<3xf32>
  fsdp.state buffer @b : tensor<3xf32>
  func.func @"reference/step"(%w: tensor<3xf32> {fsdp.state = @w}, %x: tensor<3xf32> {fsdp.input = "x"})
      -> (tensor<3xf32> {fsdp.gradient = @w}) attributes {fsdp.program = #fsdp.program<reference = true>, fsdp.captured} {
    return %x : tensor<3xf32>
  }
  func.func @"train/last"(%w: tensor<3xf32> {fsdp.state = @w}, %b: tensor<3xf32> {fsdp.state = @b}, %x: tensor<3xf32> {fsdp.input = "x"})
      -> (tensor<3xf32> {fsdp.gradient = @w}) attributes {fsdp.program = #fsdp.program<part = last>} {
    // expected-error @+2 {{the gradient of 'w' differs from what was captured}}
    // expected-note @+1 {{the first op that differs is fsdp.accumulate}}
    %n = fsdp.accumulate %x into %b of @w divide 2 : tensor<3xf32>, tensor<3xf32>
    return %n : tensor<3xf32>
  }
}

// -----

// A flat state stands for its members, through casts and collectives.

#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  fsdp.state parameter @f : tensor<8xf32> flat <over #shard> gradient <reduce bf16>
  fsdp.state parameter @v : tensor<2xf32> part <@f at 0> gradient <reduce bf16>
  fsdp.state parameter @w : tensor<4xf32> part <@f at 4> gradient <reduce bf16>
  func.func @"reference/step"(%v: tensor<2xf32> {fsdp.state = @v}, %w: tensor<4xf32> {fsdp.state = @w})
      -> (tensor<4xbf16> {fsdp.output = "loss"}, tensor<2xf32> {fsdp.gradient = @v}, tensor<4xf32> {fsdp.gradient = @w}) attributes {fsdp.program = #fsdp.program<reference = true>, fsdp.captured} {
    %vc = aten._to_copy(%v, dtype = bf16) : (tensor<2xf32>) -> tensor<2xbf16>
    %wc = aten._to_copy(%w, dtype = bf16) : (tensor<4xf32>) -> tensor<4xbf16>
    %gv = aten._to_copy(%vc, dtype = f32) : (tensor<2xbf16>) -> tensor<2xf32>
    %gw = aten._to_copy(%wc, dtype = f32) : (tensor<4xbf16>) -> tensor<4xf32>
    return %wc, %gv, %gw : tensor<4xbf16>, tensor<2xf32>, tensor<4xf32>
  }
  func.func @"train/step"(%f: tensor<4xf32> {fsdp.state = @f}) -> (tensor<4xbf16> {fsdp.output = "loss"}, tensor<4xf32> {fsdp.gradient = @f}) {
    %c = aten._to_copy(%f, dtype = bf16) : (tensor<4xf32>) -> tensor<4xbf16>
    %full = fsdp.all_gather %c dim 0 over #shard : tensor<4xbf16> -> tensor<8xbf16>
    %v = fsdp.unpack %full at 0 : tensor<8xbf16> -> tensor<2xbf16>
    %w = fsdp.unpack %full at 4 : tensor<8xbf16> -> tensor<4xbf16>
    %p = fsdp.pack(%v, %w) at [0, 4] of @f : tensor<2xbf16>, tensor<4xbf16> -> tensor<8xbf16>
    %s = fsdp.reduce_scatter avg %p dim 0 over #shard of @f : tensor<8xbf16> -> tensor<4xbf16>
    %g = aten._to_copy(%s, dtype = f32) : (tensor<4xbf16>) -> tensor<4xf32>
    return %w, %g : tensor<4xbf16>, tensor<4xf32>
  }
}

// -----

// A view that is no member, gradients of other members, gradients elsewhere.

#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  fsdp.state parameter @f : tensor<8xf32> flat <over #shard>
  fsdp.state parameter @v : tensor<4xf32> part <@f at 0>
  fsdp.state parameter @w : tensor<4xf32> part <@f at 4>
  func.func @"reference/step"(%v: tensor<4xf32> {fsdp.state = @v}, %w: tensor<4xf32> {fsdp.state = @w})
      -> (tensor<4xf32> {fsdp.output = "loss"}, tensor<4xf32> {fsdp.gradient = @v}, tensor<4xf32> {fsdp.gradient = @w}) attributes {fsdp.program = #fsdp.program<reference = true>, fsdp.captured} {
    // expected-note @+1 {{captured as the result of aten.neg}}
    %n = aten.neg(%w) : (tensor<4xf32>) -> tensor<4xf32>
    return %n, %v, %w : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  }
  func.func @"train/step"(%f: tensor<4xf32> {fsdp.state = @f}) -> (tensor<4xf32> {fsdp.output = "loss"}, tensor<4xf32> {fsdp.gradient = @f}) {
    %full = fsdp.all_gather %f dim 0 over #shard : tensor<4xf32> -> tensor<8xf32>
    // expected-note @+1 {{the first op that differs is fsdp.unpack}}
    %w = fsdp.unpack %full at 3 : tensor<8xf32> -> tensor<4xf32>
    // expected-error @+1 {{the output 'loss' differs from what was captured}}
    %n = aten.neg(%w) : (tensor<4xf32>) -> tensor<4xf32>
    %v = fsdp.unpack %full at 0 : tensor<8xf32> -> tensor<4xf32>
    %x = fsdp.unpack %full at 4 : tensor<8xf32> -> tensor<4xf32>
    %p = fsdp.pack(%v, %x) at [0, 4] of @f : tensor<4xf32>, tensor<4xf32> -> tensor<8xf32>
    %s = fsdp.reduce_scatter avg %p dim 0 over #shard of @f : tensor<8xf32> -> tensor<4xf32>
    return %n, %s : tensor<4xf32>, tensor<4xf32>
  }
}

// -----

#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  fsdp.state parameter @f : tensor<8xf32> flat <over #shard>
  fsdp.state parameter @v : tensor<4xf32> part <@f at 0>
  fsdp.state parameter @w : tensor<4xf32> part <@f at 4>
  func.func @"reference/step"(%v: tensor<4xf32> {fsdp.state = @v}, %w: tensor<4xf32> {fsdp.state = @w})
      -> (tensor<4xf32> {fsdp.output = "loss"}, tensor<4xf32> {fsdp.gradient = @v}, tensor<4xf32> {fsdp.gradient = @w}) attributes {fsdp.program = #fsdp.program<reference = true>, fsdp.captured} {
    return %w, %v, %w : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  }
  func.func @"train/step"(%f: tensor<4xf32> {fsdp.state = @f}) -> (tensor<4xf32> {fsdp.output = "loss"}, tensor<4xf32> {fsdp.gradient = @f}) {
    %full = fsdp.all_gather %f dim 0 over #shard : tensor<4xf32> -> tensor<8xf32>
    %v = fsdp.unpack %full at 0 : tensor<8xf32> -> tensor<4xf32>
    %w = fsdp.unpack %full at 4 : tensor<8xf32> -> tensor<4xf32>
    %p = fsdp.pack(%w, %v) at [0, 4] of @f : tensor<4xf32>, tensor<4xf32> -> tensor<8xf32>
    // expected-error @+1 {{the gradient of 'v' differs from what was captured}}
    %s = fsdp.reduce_scatter avg %p dim 0 over #shard of @f : tensor<8xf32> -> tensor<4xf32>
    return %w, %s : tensor<4xf32>, tensor<4xf32>
  }
}

// -----

#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  fsdp.state parameter @f : tensor<8xf32> flat <over #shard>
  fsdp.state parameter @v : tensor<3xf32> part <@f at 0>
  fsdp.state parameter @w : tensor<4xf32> part <@f at 4>
  func.func @"reference/step"(%v: tensor<3xf32> {fsdp.state = @v}, %w: tensor<4xf32> {fsdp.state = @w})
      -> (tensor<4xf32> {fsdp.output = "loss"}, tensor<3xf32> {fsdp.gradient = @v}, tensor<4xf32> {fsdp.gradient = @w}) attributes {fsdp.program = #fsdp.program<reference = true>, fsdp.captured} {
    return %w, %v, %w : tensor<4xf32>, tensor<3xf32>, tensor<4xf32>
  }
  func.func @"train/step"(%f: tensor<4xf32> {fsdp.state = @f}) -> (tensor<4xf32> {fsdp.output = "loss"}, tensor<4xf32> {fsdp.gradient = @f}) {
    %full = fsdp.all_gather %f dim 0 over #shard : tensor<4xf32> -> tensor<8xf32>
    %v = fsdp.unpack %full at 0 : tensor<8xf32> -> tensor<3xf32>
    %w = fsdp.unpack %full at 4 : tensor<8xf32> -> tensor<4xf32>
    // expected-note @+1 {{the first op that differs is fsdp.pack}}
    %p = fsdp.pack(%v, %w) at [0, 3] of @f : tensor<3xf32>, tensor<4xf32> -> tensor<8xf32>
    // expected-error @+1 {{the gradient of 'v' differs from what was captured}}
    %s = fsdp.reduce_scatter avg %p dim 0 over #shard of @f : tensor<8xf32> -> tensor<4xf32>
    return %w, %s : tensor<4xf32>, tensor<4xf32>
  }
}
