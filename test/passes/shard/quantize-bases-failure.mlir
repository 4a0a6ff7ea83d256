// RUN: fsdp-opt %s --fsdp-quantize-bases --split-input-file --verify-diagnostics

// expected-error @+1 {{the pattern 'head' of quantize's modules matches no parameter and no module with parameters; there are fc.weight}}
module attributes {fsdp.quantize = #fsdp.quantize<modules = ["head"]>} {
  fsdp.state frozen @fc.weight : tensor<16x16xf32>
}

// -----

// A list for several models may name what this one does not have.

// expected-warning @+1 {{the pattern 'head' of quantize's modules matches no parameter and no module with parameters; there are fc.weight}}
module attributes {fsdp.quantize = #fsdp.quantize<modules = ["fc", "head"]>} {
  fsdp.state frozen @fc.weight : tensor<16x16xf32>
}

// -----

// expected-error @+1 {{the pattern 'head' of quantize's skip_modules matches no parameter and no module with parameters; there are fc.weight}}
module attributes {fsdp.quantize = #fsdp.quantize<modules = ["fc"], skip = ["head"]>} {
  fsdp.state frozen @fc.weight : tensor<16x16xf32>
}

// -----

// expected-error @+1 {{the pattern 'fc' of quantize's modules matches no frozen matrix: there is 'fc.weight', but it is trained; freeze what is to be quantized}}
module attributes {fsdp.quantize = #fsdp.quantize<modules = ["fc"]>} {
  fsdp.state parameter @fc.weight : tensor<16x16xf32>
}

// -----

// expected-error @+1 {{there is 'fc.weight', but its elements are neither f32 nor bf16 nor f16}}
module attributes {fsdp.quantize = #fsdp.quantize<modules = ["fc"]>} {
  fsdp.state frozen @fc.weight : tensor<16x16xf64>
}

// -----

// expected-error @+1 {{there is 'net.position', but it is of no linear layer, and is to be named itself}}
module attributes {fsdp.quantize = #fsdp.quantize<modules = ["net"]>} {
  fsdp.module "net" class "Net"
  fsdp.state frozen @net.position : tensor<9x33xbf16>
}

// -----

// expected-error @+1 {{there is 'embed.weight', but it is an embedding, of which few rows are read}}
module attributes {fsdp.quantize = #fsdp.quantize<modules = ["embed.weight"]>} {
  fsdp.module "embed" class "Embedding"
  fsdp.state frozen @embed.weight : tensor<9x33xbf16>
}

// -----

// expected-error @+1 {{expected a frozen matrix among quantize's modules that skip_modules leaves, found none}}
module attributes {fsdp.quantize = #fsdp.quantize<modules = ["*"], skip = ["fc"]>} {
  fsdp.state frozen @fc.weight : tensor<16x16xf32>
}

// -----

module attributes {fsdp.quantize = #fsdp.quantize<modules = ["*"]>} {
  // expected-error @+1 {{expects a parameter that is contiguous to be quantized, found strides; call contiguous() on it}}
  fsdp.state frozen @fc.weight : tensor<16x16xf32>
  func.func @"infer/step"(%w: tensor<16x16xf32, #aten.strides<1, 16>> {fsdp.state = @fc.weight}) -> (tensor<16x16xf32> {fsdp.output = "y"}) attributes {fsdp.captured, fsdp.program = #fsdp.program<kind = infer>} {
    %t = aten.t(%w) : (tensor<16x16xf32, #aten.strides<1, 16>>) -> tensor<16x16xf32>
    return %t : tensor<16x16xf32>
  }
}
