// RUN: fsdp-opt %s --fsdp-verify-captured --split-input-file --verify-diagnostics

// A frozen parameter, a changed buffer and a constant are all in order.
module {
  fsdp.state parameter @w : tensor<4xf32>
  fsdp.state frozen @f : tensor<4xf32>
  fsdp.state buffer @b : tensor<4xf32>
  fsdp.state constant @"constant/0" : tensor<f32>
  func.func @"train/step"(%w: tensor<4xf32> {fsdp.state = @w}, %f: tensor<4xf32> {fsdp.state = @f}, %b: tensor<4xf32> {fsdp.state = @b},
                          %c: tensor<f32> {fsdp.state = @"constant/0"}, %x: tensor<4xf32> {fsdp.input = "x"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<4xf32> {fsdp.state = @b}, tensor<4xf32> {fsdp.gradient = @w}) attributes {fsdp.captured} {
    %p = aten.mul.Tensor(%w, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %l = aten.sum(%p) : (tensor<4xf32>) -> tensor<f32>
    return %l, %p, %x : tensor<f32>, tensor<4xf32>, tensor<4xf32>
  }
}

// -----

// expected-error @+1 {{expects a captured program, found none}}
module {
}

// -----

module {
  // expected-error @+1 {{expects a captured program, marked 'fsdp.captured'}}
  func.func @"train/step"(%x: tensor<f32> {fsdp.input = "x"}) -> (tensor<f32> {fsdp.output = "loss"}) {
    return %x : tensor<f32>
  }
}

// -----

module {
  // expected-error @+1 {{expects argument 0 to be a state ('fsdp.state') or an input ('fsdp.input')}}
  func.func @"train/step"(%x: tensor<f32>) -> (tensor<f32> {fsdp.output = "loss"}) attributes {fsdp.captured} {
    return %x : tensor<f32>
  }
}

// -----

module {
  // expected-error @+1 {{has two inputs called 'x'}}
  func.func @"train/step"(%x: tensor<f32> {fsdp.input = "x"}, %y: tensor<f32> {fsdp.input = "x"}) -> (tensor<f32> {fsdp.output = "loss"}) attributes {fsdp.captured} {
    return %x : tensor<f32>
  }
}

// -----

module {
  // expected-error @+1 {{expects to be an argument of the program}}
  fsdp.state frozen @w : tensor<4xf32>
  // expected-note @+1 {{the program}}
  func.func @"train/step"(%x: tensor<f32> {fsdp.input = "x"}) -> (tensor<f32> {fsdp.output = "loss"}) attributes {fsdp.captured} {
    return %x : tensor<f32>
  }
}

// -----

module {
  // expected-error @+1 {{expects a role that capture gives, found scalar}}
  fsdp.state scalar @lr : tensor<f32>
  func.func @"train/step"(%x: tensor<f32> {fsdp.input = "x"}) -> (tensor<f32> {fsdp.output = "loss"}) attributes {fsdp.captured} {
    return %x : tensor<f32>
  }
}

// -----

module {
  // expected-error @+1 {{expects its first result to be the loss, an output that is a floating-point scalar}}
  func.func @"train/step"(%x: tensor<4xf32> {fsdp.input = "x"}) -> (tensor<4xf32> {fsdp.output = "loss"}) attributes {fsdp.captured} {
    return %x : tensor<4xf32>
  }
}

// -----

module {
  // expected-error @+1 {{expects a gradient among the results; a parameter without one is 'frozen'}}
  fsdp.state parameter @w : tensor<4xf32>
  func.func @"train/step"(%w: tensor<4xf32> {fsdp.state = @w}, %x: tensor<f32> {fsdp.input = "x"}) -> (tensor<f32> {fsdp.output = "loss"}) attributes {fsdp.captured} {
    return %x : tensor<f32>
  }
}

// -----

module {
  fsdp.state frozen @w : tensor<4xf32>
  // expected-error @+1 {{result 1 expects to be the gradient of a parameter, found @w}}
  func.func @"train/step"(%w: tensor<4xf32> {fsdp.state = @w}, %x: tensor<f32> {fsdp.input = "x"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<4xf32> {fsdp.gradient = @w}) attributes {fsdp.captured} {
    return %x, %w : tensor<f32>, tensor<4xf32>
  }
}

// -----

module {
  fsdp.state frozen @w : tensor<4xf32>
  // expected-error @+1 {{result 1 expects to be the new value of a buffer, found 'w'}}
  func.func @"train/step"(%w: tensor<4xf32> {fsdp.state = @w}, %x: tensor<f32> {fsdp.input = "x"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<4xf32> {fsdp.state = @w}) attributes {fsdp.captured} {
    return %x, %w : tensor<f32>, tensor<4xf32>
  }
}

// -----

module {
  // expected-error @+1 {{expects result 1 to be an output}}
  func.func @"train/step"(%x: tensor<f32> {fsdp.input = "x"}) -> (tensor<f32> {fsdp.output = "loss"}, tensor<f32>) attributes {fsdp.captured} {
    return %x, %x : tensor<f32>, tensor<f32>
  }
}

// -----

module {
  fsdp.state parameter @w : tensor<4x2xf32>
  // expected-error @+1 {{result 1, the gradient of 'w', expects to be contiguous}}
  func.func @"train/step"(%w: tensor<4x2xf32> {fsdp.state = @w}, %x: tensor<2x4xf32> {fsdp.input = "x"}, %y: tensor<f32> {fsdp.input = "y"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<4x2xf32, #aten.strides<1, 4>> {fsdp.gradient = @w}) attributes {fsdp.captured} {
    %t = aten.t(%x) : (tensor<2x4xf32>) -> tensor<4x2xf32, #aten.strides<1, 4>>
    return %y, %t : tensor<f32>, tensor<4x2xf32, #aten.strides<1, 4>>
  }
}

// -----

module {
  func.func @"train/step"(%x: tensor<f32> {fsdp.input = "x"}) -> (tensor<f32> {fsdp.output = "loss"}) attributes {fsdp.captured} {
    // expected-error @+1 {{writes an operand; a captured program is functional}}
    %r = aten.relu_(%x) : (tensor<f32>) -> tensor<f32>
    return %r : tensor<f32>
  }
}

// -----

module {
  func.func @"train/step"(%x: tensor<f32> {fsdp.input = "x"}) -> (tensor<f32> {fsdp.output = "loss"}) attributes {fsdp.captured} {
    // expected-error @+1 {{expects to be an aten op or an fsdp.constant in a captured program}}
    %r = fsdp.replay %x : tensor<f32>
    return %r : tensor<f32>
  }
}

// -----

// A program for inference: outputs of any type, a changed buffer, no loss.
module {
  fsdp.state frozen @w : tensor<4xf32>
  fsdp.state buffer @b : tensor<4xf32>
  func.func @"infer/step"(%w: tensor<4xf32> {fsdp.state = @w}, %b: tensor<4xf32> {fsdp.state = @b}, %n: tensor<i64> {fsdp.input = "n"})
      -> (tensor<i64> {fsdp.output = "n"}, tensor<4xf32> {fsdp.output = "w"}, tensor<4xf32> {fsdp.state = @b}) attributes {fsdp.program = #fsdp.program<kind = infer>, fsdp.captured} {
    return %n, %w, %w : tensor<i64>, tensor<4xf32>, tensor<4xf32>
  }
}

// -----

module {
  fsdp.state parameter @w : tensor<4xf32>
  // expected-error @+1 {{result 0 is a gradient; expected none in a program for infer}}
  func.func @"infer/step"(%w: tensor<4xf32> {fsdp.state = @w}) -> (tensor<4xf32> {fsdp.gradient = @w}) attributes {fsdp.program = #fsdp.program<kind = infer>, fsdp.captured} {
    return %w : tensor<4xf32>
  }
}

// -----

module {
  // expected-error @+1 {{has two outputs called 'x'}}
  func.func @"infer/step"(%x: tensor<4xf32> {fsdp.input = "x"}) -> (tensor<4xf32> {fsdp.output = "x"}, tensor<4xf32> {fsdp.output = "x"}) attributes {fsdp.program = #fsdp.program<kind = infer>, fsdp.captured} {
    return %x, %x : tensor<4xf32>, tensor<4xf32>
  }
}

// -----

module {
  // expected-error @+1 {{output 'x' expects to be contiguous, found 'tensor<4x4xf32, #aten.strides<1, 4>>'}}
  func.func @"infer/step"(%x: tensor<4x4xf32> {fsdp.input = "x"}) -> (tensor<4x4xf32, #aten.strides<1, 4>> {fsdp.output = "x"}) attributes {fsdp.program = #fsdp.program<kind = infer>, fsdp.captured} {
    %t = aten.t(%x) : (tensor<4x4xf32>) -> tensor<4x4xf32, #aten.strides<1, 4>>
    return %t : tensor<4x4xf32, #aten.strides<1, 4>>
  }
}

// -----

// Draws from the random state, and what draws nothing.
module {
  fsdp.state random @"random/state" : tensor<2xi64>
  func.func @"train/step"(%r: tensor<2xi64> {fsdp.state = @"random/state"}, %x: tensor<4xf32> {fsdp.input = "x"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<2xi64> {fsdp.state = @"random/state"}) attributes {fsdp.captured} {
    %m = fsdp.draw bernoulli with [0.5] site 0 from %r : (tensor<2xi64>) -> tensor<4xf32>
    %o, %all = aten.native_dropout(%x, p = 0.5, train = false) : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xi1>)
    %p = aten.mul.Tensor(%o, %m) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %l = aten.sum(%p) : (tensor<4xf32>) -> tensor<f32>
    %one = fsdp.constant dense<[0, 1]> : tensor<2xi64>
    %n = aten.add.Tensor(%r, %one) : (tensor<2xi64>, tensor<2xi64>) -> tensor<2xi64>
    return %l, %n : tensor<f32>, tensor<2xi64>
  }
}

// -----

module {
  func.func @"train/step"(%x: tensor<4xf32> {fsdp.input = "x"}) -> (tensor<f32> {fsdp.output = "loss"}) attributes {fsdp.captured} {
    // expected-error @+1 {{draws from a generator; expected fsdp.draw, which a step can repeat}}
    %m = aten.bernoulli.p(%x, p = 0.5) : (tensor<4xf32>) -> tensor<4xf32>
    %l = aten.sum(%m) : (tensor<4xf32>) -> tensor<f32>
    return %l : tensor<f32>
  }
}

// -----

module {
  func.func @"train/step"(%r: tensor<2xi64> {fsdp.input = "r"}) -> (tensor<f32> {fsdp.output = "loss"}) attributes {fsdp.captured} {
    // expected-error @+1 {{expects to draw from the program's random state}}
    %m = fsdp.draw uniform with [0.0, 1.0] site 0 from %r : (tensor<2xi64>) -> tensor<f32>
    return %m : tensor<f32>
  }
}

// -----

module {
  fsdp.state random @"random/state" : tensor<2xi64>
  func.func @"train/step"(%r: tensor<2xi64> {fsdp.state = @"random/state"}) -> (tensor<f32> {fsdp.output = "loss"}) attributes {fsdp.captured} {
    // expected-note @+1 {{also drawn here}}
    %a = fsdp.draw uniform with [0.0, 1.0] site 4 from %r : (tensor<2xi64>) -> tensor<f32>
    // expected-error @+1 {{expects a site of its own, found 4}}
    %b = fsdp.draw normal with [0.0, 1.0] site 4 from %r : (tensor<2xi64>) -> tensor<f32>
    %l = aten.add.Tensor(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    return %l : tensor<f32>
  }
}
