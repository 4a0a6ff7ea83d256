// RUN: fsdp-opt %s --split-input-file --fsdp-annotate='with={step<loss_chunks = 4>}' --fsdp-chunk-loss --verify-diagnostics
// RUN: sed '/expected-/d' %s > %t.mlir
// RUN: fsdp-opt %t.mlir --split-input-file --fsdp-annotate='with={step<loss_chunks = 0>}' --fsdp-chunk-loss -o %t.chosen
// RUN: fsdp-opt %t.mlir --split-input-file --fsdp-annotate='with={step<loss_chunks = 0>}' -o %t.given
// RUN: diff %t.given %t.chosen

// What cannot be computed in chunks is refused with the reason, and left alone
// where the number of chunks is the compiler's choice.

// Logits that are asked for.

module {
  fsdp.state parameter @w : tensor<16x4xf32>
  // expected-error @+1 {{expected a linear layer with a cross-entropy over its last dim behind it, to compute in 4 chunks ('loss_chunks'), found none that can be taken apart; write loss_chunks: 1, or auto}}
  func.func @"train/step"(%w: tensor<16x4xf32> {fsdp.state = @w}, %h: tensor<8x4xf32> {fsdp.input = "x"}, %labels: tensor<8xi64> {fsdp.input = "y"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<16x4xf32> {fsdp.gradient = @w}, tensor<8x16xf32> {fsdp.output = "logits"}) attributes {fsdp.captured} {
    %t = aten.t(%w) : (tensor<16x4xf32>) -> tensor<4x16xf32, #aten.strides<1, 4>>
    // expected-note @+1 {{the output 'logits' has all of its rows}}
    %l = aten.mm(%h, %t) : (tensor<8x4xf32>, tensor<4x16xf32, #aten.strides<1, 4>>) -> tensor<8x16xf32>
    %p = aten._log_softmax(%l, dim = 1, half_to_float = false) : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %n:2 = aten.nll_loss_forward(%p, %labels, none, reduction = 1, ignore_index = -100) : (tensor<8x16xf32>, tensor<8xi64>) -> (tensor<f32>, tensor<f32>)
    %one = aten.ones_like(%n#0, memory_format = "preserve") : (tensor<f32>) -> tensor<f32>
    %g = aten.nll_loss_backward(%one, %p, %labels, none, %n#1, reduction = 1, ignore_index = -100) : (tensor<f32>, tensor<8x16xf32>, tensor<8xi64>, tensor<f32>) -> tensor<8x16xf32>
    %d = aten._log_softmax_backward_data(%g, %p, dim = 1, input_dtype = f32) : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
    %dt = aten.t(%d) : (tensor<8x16xf32>) -> tensor<16x8xf32, #aten.strides<1, 16>>
    %dw = aten.mm(%dt, %h) : (tensor<16x8xf32, #aten.strides<1, 16>>, tensor<8x4xf32>) -> tensor<16x4xf32>
    return %n#0, %dw, %l : tensor<f32>, tensor<16x4xf32>, tensor<8x16xf32>
  }
}

// -----

// The square of a loss: its gradient has the loss as a factor.

module {
  fsdp.state parameter @w : tensor<16x4xf32>
  // expected-error @+1 {{expected a linear layer with a cross-entropy over its last dim behind it, to compute in 4 chunks ('loss_chunks'), found none that can be taken apart; write loss_chunks: 1, or auto}}
  func.func @"train/step"(%w: tensor<16x4xf32> {fsdp.state = @w}, %h: tensor<8x4xf32> {fsdp.input = "x"}, %labels: tensor<8xi64> {fsdp.input = "y"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<16x4xf32> {fsdp.gradient = @w}) attributes {fsdp.captured} {
    %t = aten.t(%w) : (tensor<16x4xf32>) -> tensor<4x16xf32, #aten.strides<1, 4>>
    %l = aten.mm(%h, %t) : (tensor<8x4xf32>, tensor<4x16xf32, #aten.strides<1, 4>>) -> tensor<8x16xf32>
    %p = aten._log_softmax(%l, dim = 1, half_to_float = false) : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %n:2 = aten.nll_loss_forward(%p, %labels, none, reduction = 1, ignore_index = -100) : (tensor<8x16xf32>, tensor<8xi64>) -> (tensor<f32>, tensor<f32>)
    %one = aten.ones_like(%n#0, memory_format = "preserve") : (tensor<f32>) -> tensor<f32>
    %square = aten.mul.Tensor(%n#0, %n#0) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    // expected-note @+1 {{its gradient depends on a sum over all rows, such as the loss itself}}
    %twice = aten.mul.Scalar(%n#0, other = 2.0) : (tensor<f32>) -> tensor<f32>
    %g = aten.nll_loss_backward(%twice, %p, %labels, none, %n#1, reduction = 1, ignore_index = -100) : (tensor<f32>, tensor<8x16xf32>, tensor<8xi64>, tensor<f32>) -> tensor<8x16xf32>
    %d = aten._log_softmax_backward_data(%g, %p, dim = 1, input_dtype = f32) : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
    %dt = aten.t(%d) : (tensor<8x16xf32>) -> tensor<16x8xf32, #aten.strides<1, 16>>
    %dw = aten.mm(%dt, %h) : (tensor<16x8xf32, #aten.strides<1, 16>>, tensor<8x4xf32>) -> tensor<16x4xf32>
    return %square, %dw : tensor<f32>, tensor<16x4xf32>
  }
}

// -----

// What looks at several rows.

module {
  fsdp.state parameter @w : tensor<16x4xf32>
  // expected-error @+1 {{expected a linear layer with a cross-entropy over its last dim behind it, to compute in 4 chunks ('loss_chunks'), found none that can be taken apart; write loss_chunks: 1, or auto}}
  func.func @"train/step"(%w: tensor<16x4xf32> {fsdp.state = @w}, %h: tensor<8x4xf32> {fsdp.input = "x"}, %labels: tensor<8xi64> {fsdp.input = "y"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<16x4xf32> {fsdp.gradient = @w}, tensor<8x16xf32> {fsdp.output = "running"}) attributes {fsdp.captured} {
    %t = aten.t(%w) : (tensor<16x4xf32>) -> tensor<4x16xf32, #aten.strides<1, 4>>
    %l = aten.mm(%h, %t) : (tensor<8x4xf32>, tensor<4x16xf32, #aten.strides<1, 4>>) -> tensor<8x16xf32>
    %p = aten._log_softmax(%l, dim = 1, half_to_float = false) : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %n:2 = aten.nll_loss_forward(%p, %labels, none, reduction = 1, ignore_index = -100) : (tensor<8x16xf32>, tensor<8xi64>) -> (tensor<f32>, tensor<f32>)
    %one = aten.ones_like(%n#0, memory_format = "preserve") : (tensor<f32>) -> tensor<f32>
    // expected-note @+1 {{is read by aten.cumsum, which is not known to compute rows from rows}}
    %running = aten.cumsum(%l, dim = 0) : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %g = aten.nll_loss_backward(%one, %p, %labels, none, %n#1, reduction = 1, ignore_index = -100) : (tensor<f32>, tensor<8x16xf32>, tensor<8xi64>, tensor<f32>) -> tensor<8x16xf32>
    %d = aten._log_softmax_backward_data(%g, %p, dim = 1, input_dtype = f32) : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
    %dt = aten.t(%d) : (tensor<8x16xf32>) -> tensor<16x8xf32, #aten.strides<1, 16>>
    %dw = aten.mm(%dt, %h) : (tensor<16x8xf32, #aten.strides<1, 16>>, tensor<8x4xf32>) -> tensor<16x4xf32>
    return %n#0, %dw, %running : tensor<f32>, tensor<16x4xf32>, tensor<8x16xf32>
  }
}

// -----

// Classes of images are no rows.

module {
  // expected-error @+1 {{expected a linear layer with a cross-entropy over its last dim behind it, to compute in 4 chunks ('loss_chunks'), found none that can be taken apart; write loss_chunks: 1, or auto}}
  func.func @"train/step"(%x: tensor<2x16x4x4xf32> {fsdp.input = "x"}, %y: tensor<2x4x4xi64> {fsdp.input = "y"}) -> (tensor<f32> {fsdp.output = "loss"}) attributes {fsdp.captured} {
    // expected-note @+1 {{its classes are dim 1 of 4; those of a linear layer are the last of at least 2}}
    %p = aten._log_softmax(%x, dim = 1, half_to_float = false) : (tensor<2x16x4x4xf32>) -> tensor<2x16x4x4xf32>
    %n:2 = aten.nll_loss2d_forward(%p, %y, none, reduction = 1, ignore_index = -100) : (tensor<2x16x4x4xf32>, tensor<2x4x4xi64>) -> (tensor<f32>, tensor<f32>)
    return %n#0 : tensor<f32>
  }
}

// -----

// Rows that no linear layer makes.

module {
  // expected-error @+1 {{expected a linear layer with a cross-entropy over its last dim behind it, to compute in 4 chunks ('loss_chunks'), found none that can be taken apart; write loss_chunks: 1, or auto}}
  func.func @"train/step"(%x: tensor<2x4x16xf32> {fsdp.input = "x"}, %v: tensor<2x16x16xf32> {fsdp.input = "v"}, %y: tensor<8xi64> {fsdp.input = "y"}) -> (tensor<f32> {fsdp.output = "loss"}) attributes {fsdp.captured} {
    // expected-note @+1 {{its rows come from aten.bmm, which is no linear layer}}
    %l = aten.bmm(%x, %v) : (tensor<2x4x16xf32>, tensor<2x16x16xf32>) -> tensor<2x4x16xf32>
    %rows = aten.view(%l, size = [8, 16]) : (tensor<2x4x16xf32>) -> tensor<8x16xf32>
    %p = aten._log_softmax(%rows, dim = 1, half_to_float = false) : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %n:2 = aten.nll_loss_forward(%p, %y, none, reduction = 1, ignore_index = -100) : (tensor<8x16xf32>, tensor<8xi64>) -> (tensor<f32>, tensor<f32>)
    return %n#0 : tensor<f32>
  }
}

// -----

module {
  // expected-error @+1 {{expected a linear layer with a cross-entropy over its last dim behind it, to compute in 4 chunks ('loss_chunks'), found no cross-entropy; write loss_chunks: 1, or auto}}
  func.func @"train/step"(%x: tensor<8x16xf32> {fsdp.input = "x"}) -> (tensor<f32> {fsdp.output = "loss"}) attributes {fsdp.captured} {
    %n = aten.sum(%x) : (tensor<8x16xf32>) -> tensor<f32>
    return %n : tensor<f32>
  }
}

// -----

// A program for inference needs no chunks.

module {
  func.func @"infer/step"(%x: tensor<8x16xf32> {fsdp.input = "x"}) -> (tensor<f32> {fsdp.output = "output"}) attributes {fsdp.program = #fsdp.program<kind = infer>, fsdp.captured} {
    %n = aten.sum(%x) : (tensor<8x16xf32>) -> tensor<f32>
    return %n : tensor<f32>
  }
}
