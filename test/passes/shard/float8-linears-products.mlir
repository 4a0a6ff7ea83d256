// RUN: not fsdp-opt %s --fsdp-float8-linears --split-input-file 2>&1 | FileCheck %s

// Errors stand where the model's line is. First a gradient that comes from another
// product, then one that comes from none.

// CHECK: 'fc' has a product that is none of a linear layer's, so it cannot multiply numbers of eight bits; leave it out of float8's 'modules'
// CHECK: 'fc' multiplies by its weight 1 times and has 0 products for the weight's gradient that are found

module attributes {fsdp.float8 = #fsdp.float8<modules = ["*"]>} {
  fsdp.module "fc" class "Linear"
  fsdp.state parameter @fc.weight : tensor<16x16xf32>
  func.func @"train/step"(%w: tensor<16x16xf32> {fsdp.state = @fc.weight}, %x: tensor<8x16xf32> {fsdp.input = "x"}, %g: tensor<16x8xf32> {fsdp.input = "g"}) -> (tensor<f32> {fsdp.output = "loss"}, tensor<16x16xf32> {fsdp.gradient = @fc.weight}) attributes {fsdp.captured} {
    %t = aten.t(%w) : (tensor<16x16xf32>) -> tensor<16x16xf32, #aten.strides<1, 16>>
    %y = aten.mm(%x, %t) : (tensor<8x16xf32>, tensor<16x16xf32, #aten.strides<1, 16>>) -> tensor<8x16xf32> loc("fc")
    %loss = aten.sum(%y) : (tensor<8x16xf32>) -> tensor<f32>
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
    %y = aten.mm(%x, %t) : (tensor<8x16xf32>, tensor<16x16xf32, #aten.strides<1, 16>>) -> tensor<8x16xf32> loc("fc")
    %loss = aten.sum(%y) : (tensor<8x16xf32>) -> tensor<f32>
    return %loss, %w : tensor<f32>, tensor<16x16xf32>
  }
}
