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

// expected-error @+1 {{expected a linear layer that can multiply numbers of eight bits among those of float8's modules, found none; of 'fc', the sizes of its weight are no multiples of 16; pad_inner_dim: true takes any}}
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

// expected-error @+1 {{expected the recipe 'tensorwise' with 'all_gather', found 'rowwise'}}
module attributes {fsdp.float8 = #fsdp.float8<modules = ["*"], recipe = rowwise, all_gather = true>} {
}

// -----

// expected-error @+1 {{found none; of 'fc', one of its products sums 48 numbers, and mxfp8 a multiple of 32}}
module attributes {fsdp.float8 = #fsdp.float8<modules = ["fc"], recipe = mxfp8, pad = true>} {
  fsdp.module "fc" class "Linear"
  fsdp.state frozen @fc.weight : tensor<32x48xf32>
  func.func @"infer/blocks"(%w: tensor<32x48xf32> {fsdp.state = @fc.weight}, %x: tensor<8x48xf32> {fsdp.input = "x"}) -> (tensor<8x32xf32> {fsdp.output = "y"}) attributes {fsdp.captured} {
    %t = aten.t(%w) : (tensor<32x48xf32>) -> tensor<48x32xf32, #aten.strides<1, 48>>
    %y = aten.mm(%x, %t) : (tensor<8x48xf32>, tensor<48x32xf32, #aten.strides<1, 48>>) -> tensor<8x32xf32> loc(#fc)
    return %y : tensor<8x32xf32>
  }
}
#fc = loc("fc")
