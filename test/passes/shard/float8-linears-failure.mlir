// RUN: fsdp-opt %s --fsdp-float8-linears --split-input-file --verify-diagnostics

// expected-error @+1 {{the pattern 'head' of float8's modules matches no linear layer; there are fc}}
module attributes {fsdp.float8 = #fsdp.float8<modules = ["fc", "head"]>} {
  fsdp.module "fc" class "Linear"
  fsdp.state frozen @fc.weight : tensor<16x16xf32>
  func.func @"infer/step"(%w: tensor<16x16xf32> {fsdp.state = @fc.weight}, %x: tensor<8x16xf32> {fsdp.input = "x"}) -> (tensor<8x16xf32> {fsdp.output = "y"}) attributes {fsdp.captured, fsdp.program = #fsdp.program<kind = infer>} {
    %t = aten.t(%w) : (tensor<16x16xf32>) -> tensor<16x16xf32, #aten.strides<1, 16>>
    %y = aten.mm(%x, %t) : (tensor<8x16xf32>, tensor<16x16xf32, #aten.strides<1, 16>>) -> tensor<8x16xf32> loc("fc")
    return %y : tensor<8x16xf32>
  }
}

// -----

// expected-error @+1 {{expected a linear layer in f32, bf16 or f16 whose sizes are multiples of 16 among those of float8's modules, found none; write pad_inner_dim: true}}
module attributes {fsdp.float8 = #fsdp.float8<modules = ["*"]>} {
  fsdp.module "fc" class "Linear"
  fsdp.state frozen @fc.weight : tensor<16x15xf32>
  func.func @"infer/step"(%w: tensor<16x15xf32> {fsdp.state = @fc.weight}, %x: tensor<8x15xf32> {fsdp.input = "x"}) -> (tensor<8x16xf32> {fsdp.output = "y"}) attributes {fsdp.captured, fsdp.program = #fsdp.program<kind = infer>} {
    %t = aten.t(%w) : (tensor<16x15xf32>) -> tensor<15x16xf32, #aten.strides<1, 15>>
    %y = aten.mm(%x, %t) : (tensor<8x15xf32>, tensor<15x16xf32, #aten.strides<1, 15>>) -> tensor<8x16xf32> loc("fc")
    return %y : tensor<8x16xf32>
  }
}

// -----

// expected-error @+1 {{expected no ranks along 'tp' and 'cp' with float8, whose scales are of what one rank computes; found 2 and 1}}
module attributes {fsdp.float8 = #fsdp.float8<modules = ["*"]>, fsdp.parallel = #fsdp.parallel<tp = 2>} {
}

// -----

// expected-error @+1 {{expected float8 on the CPU, found cuda:sm_90}}
module attributes {fsdp.float8 = #fsdp.float8<modules = ["*"]>, fsdp.device = "cuda:sm_90"} {
}

// -----

// A gradient that comes from another product.

module attributes {fsdp.float8 = #fsdp.float8<modules = ["*"]>} {
  fsdp.module "fc" class "Linear"
  fsdp.state parameter @fc.weight : tensor<16x16xf32>
  func.func @"train/step"(%w: tensor<16x16xf32> {fsdp.state = @fc.weight}, %x: tensor<8x16xf32> {fsdp.input = "x"}, %g: tensor<16x8xf32> {fsdp.input = "g"}) -> (tensor<f32> {fsdp.output = "loss"}, tensor<16x16xf32> {fsdp.gradient = @fc.weight}) attributes {fsdp.captured} {
    %t = aten.t(%w) : (tensor<16x16xf32>) -> tensor<16x16xf32, #aten.strides<1, 16>>
    %y = aten.mm(%x, %t) : (tensor<8x16xf32>, tensor<16x16xf32, #aten.strides<1, 16>>) -> tensor<8x16xf32> loc("fc")
    %loss = aten.sum(%y) : (tensor<8x16xf32>) -> tensor<f32>
    // expected-error @+1 {{'fc' has a product that is none of a linear layer's, so it cannot multiply numbers of eight bits; leave it out of float8's 'modules'}}
    %gw = aten.mm(%g, %y) : (tensor<16x8xf32>, tensor<8x16xf32>) -> tensor<16x16xf32> loc("fc")
    return %loss, %gw : tensor<f32>, tensor<16x16xf32>
  }
}

// -----

module attributes {fsdp.float8 = #fsdp.float8<modules = ["*"]>} {
  fsdp.module "fc" class "Linear"
  fsdp.state parameter @fc.weight : tensor<16x16xf32>
  func.func @"train/step"(%w: tensor<16x16xf32> {fsdp.state = @fc.weight}, %x: tensor<8x16xf32> {fsdp.input = "x"}) -> (tensor<f32> {fsdp.output = "loss"}, tensor<16x16xf32> {fsdp.gradient = @fc.weight}) attributes {fsdp.captured} {
    %t = aten.t(%w) : (tensor<16x16xf32>) -> tensor<16x16xf32, #aten.strides<1, 16>>
    // expected-error @+1 {{'fc' multiplies by its weight 1 times and has 0 products for the weight's gradient that are found}}
    %y = aten.mm(%x, %t) : (tensor<8x16xf32>, tensor<16x16xf32, #aten.strides<1, 16>>) -> tensor<8x16xf32> loc("fc")
    %loss = aten.sum(%y) : (tensor<8x16xf32>) -> tensor<f32>
    return %loss, %w : tensor<f32>, tensor<16x16xf32>
  }
}

// -----

// expected-error @+1 {{expected the recipe 'tensorwise' with 'all_gather', found 'rowwise'}}
module attributes {fsdp.float8 = #fsdp.float8<modules = ["*"], recipe = rowwise, all_gather = true>} {
}
