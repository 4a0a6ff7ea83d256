// dropout(w * x): the captured program, with the mask's backward.
module attributes {fsdp.model = #fsdp.model<"dropout.pt2", 8192, "0123456789abcdef", torch "2.11.0">} {
  fsdp.module "" class "Dropout"
  fsdp.state parameter @w : tensor<5x3xf32> source <"data/weights/weight_0" at 64 : 60 crc 1>
  fsdp.state random @"random/state" : tensor<2xi64>
  func.func @"train/step"(%w: tensor<5x3xf32> {fsdp.state = @w}, %r: tensor<2xi64> {fsdp.state = @"random/state"}, %x: tensor<5x3xf32> {fsdp.input = "x"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<5x3xf32> {fsdp.gradient = @w}, tensor<2xi64> {fsdp.state = @"random/state"}) attributes {fsdp.captured} {
    %p = aten.mul.Tensor(%w, %x) : (tensor<5x3xf32>, tensor<5x3xf32>) -> tensor<5x3xf32>
    %m = fsdp.draw bernoulli with [0.75] site 0 from %r : (tensor<2xi64>) -> tensor<5x3xi1>
    %k = aten.mul.Tensor(%p, %m) : (tensor<5x3xf32>, tensor<5x3xi1>) -> tensor<5x3xf32>
    %l = aten.sum(%k) : (tensor<5x3xf32>) -> tensor<f32>
    %n = fsdp.draw integer range [1, 6] site 1 from %r : (tensor<2xi64>) -> tensor<5x3xi64>
    %s = aten.mul.Tensor(%x, %n) : (tensor<5x3xf32>, tensor<5x3xi64>) -> tensor<5x3xf32>
    %g = aten.mul.Tensor(%s, %m) : (tensor<5x3xf32>, tensor<5x3xi1>) -> tensor<5x3xf32>
    %one = fsdp.constant dense<[0, 1]> : tensor<2xi64>
    %next = aten.add.Tensor(%r, %one) : (tensor<2xi64>, tensor<2xi64>) -> tensor<2xi64>
    return %l, %g, %next : tensor<f32>, tensor<5x3xf32>, tensor<2xi64>
  }
}
