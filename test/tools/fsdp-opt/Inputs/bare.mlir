// Two linear layers, the second one frozen, and a counter; no data anywhere.
module @model attributes {fsdp.model = #fsdp.model<"bare.pt2", 1, "9f86d081884c7d65", torch "2.11.0">} {
  fsdp.module "fc1" class "Linear"
  fsdp.module "fc2" class "Linear"
  fsdp.state parameter @fc1.weight : tensor<2x3xf32>
  fsdp.state parameter @fc1.bias : tensor<2xf32>
  fsdp.state frozen @fc2.weight : tensor<3x2xf32>
  fsdp.state buffer @count : tensor<i64>
  func.func @"train/step"(%w: tensor<2x3xf32> {fsdp.state = @fc1.weight},
      %b: tensor<2xf32> {fsdp.state = @fc1.bias},
      %v: tensor<3x2xf32> {fsdp.state = @fc2.weight},
      %c: tensor<i64> {fsdp.state = @count},
      %x: tensor<5x3xf32> {fsdp.input = "x"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<2x3xf32> {fsdp.gradient = @fc1.weight},
          tensor<2xf32> {fsdp.gradient = @fc1.bias}) attributes {fsdp.captured} {
    %0 = aten.mm(%w, %v) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
    %1 = aten.mul.Tensor(%0, %b) : (tensor<2x2xf32>, tensor<2xf32>) -> tensor<2x2xf32>
    %2 = aten.sum(%1) : (tensor<2x2xf32>) -> tensor<f32>
    %3 = aten.mul.Tensor(%2, %c) : (tensor<f32>, tensor<i64>) -> tensor<f32>
    %4 = aten.sum(%x) : (tensor<5x3xf32>) -> tensor<f32>
    %loss = aten.add.Tensor(%3, %4) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    return %loss, %w, %b : tensor<f32>, tensor<2x3xf32>, tensor<2xf32>
  }
}
