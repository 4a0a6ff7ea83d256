// An embedding of tokens; the loss is the mean of what the targets choose.
module @tokens attributes {fsdp.model = #fsdp.model<"tokens.pt2", 8192, "0123456789abcdef", torch "2.11.0">} {
  fsdp.module "" class "Net"
  fsdp.state parameter @weight : tensor<31x1xf32> source <"data/weights/weight_0" at 64 : 124>
  func.func @"train/step"(
      %w: tensor<31x1xf32> {fsdp.state = @weight},
      %x: tensor<2x9xi64> {fsdp.input = "x"}, %y: tensor<2x9xi64> {fsdp.input = "y"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<31x1xf32> {fsdp.gradient = @weight}) attributes {fsdp.captured} {
    %e = aten.embedding(%w, %x) : (tensor<31x1xf32>, tensor<2x9xi64>) -> tensor<2x9x1xf32>
    %t = aten.embedding(%w, %y) : (tensor<31x1xf32>, tensor<2x9xi64>) -> tensor<2x9x1xf32>
    %p = aten.mul.Tensor(%e, %t) : (tensor<2x9x1xf32>, tensor<2x9x1xf32>) -> tensor<2x9x1xf32>
    %loss = aten.sum(%p) : (tensor<2x9x1xf32>) -> tensor<f32>
    %g = aten.embedding_dense_backward(%t, %x, num_weights = 31, padding_idx = -1, scale_grad_by_freq = false) : (tensor<2x9x1xf32>, tensor<2x9xi64>) -> tensor<31x1xf32>
    return %loss, %g : tensor<f32>, tensor<31x1xf32>
  }
}
