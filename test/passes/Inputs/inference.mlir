// Linear(17, 13), relu, Linear(13, 5) with its outputs and no gradients; the
// second output is a view of the first.
module @inference attributes {fsdp.model = #fsdp.model<"inference.pt2", 8192, "0123456789abcdef", torch "2.11.0">} {
  fsdp.module "" class "Net"
  fsdp.module "a" class "Linear"
  fsdp.module "b" class "Linear"
  fsdp.state frozen @a.weight : tensor<13x17xf32> source <"data/weights/weight_0" at 64 : 884>
  fsdp.state frozen @a.bias : tensor<13xf32> source <"data/weights/weight_1" at 1024 : 52>
  fsdp.state frozen @b.weight : tensor<5x13xf32> source <"data/weights/weight_2" at 1152 : 260>
  fsdp.state frozen @b.bias : tensor<5xf32> source <"data/weights/weight_3" at 1472 : 20>
  func.func @"infer/step"(
      %aw: tensor<13x17xf32> {fsdp.state = @a.weight}, %ab: tensor<13xf32> {fsdp.state = @a.bias},
      %bw: tensor<5x13xf32> {fsdp.state = @b.weight}, %bb: tensor<5xf32> {fsdp.state = @b.bias},
      %x: tensor<8x17xf32> {fsdp.input = "x"})
      -> (tensor<8x5xf32> {fsdp.output = "logits"}, tensor<8x13xf32> {fsdp.output = "hidden"}, tensor<f32> {fsdp.output = "mean"})
      attributes {fsdp.program = #fsdp.program<kind = infer>, fsdp.captured} {
    %awt = aten.t(%aw) : (tensor<13x17xf32>) -> tensor<17x13xf32, #aten.strides<1, 17>>
    %ah = aten.addmm(%ab, %x, %awt) : (tensor<13xf32>, tensor<8x17xf32>, tensor<17x13xf32, #aten.strides<1, 17>>) -> tensor<8x13xf32>
    %ar = aten.relu(%ah) : (tensor<8x13xf32>) -> tensor<8x13xf32>
    %bwt = aten.t(%bw) : (tensor<5x13xf32>) -> tensor<13x5xf32, #aten.strides<1, 13>>
    %bh = aten.addmm(%bb, %ar, %bwt) : (tensor<5xf32>, tensor<8x13xf32>, tensor<13x5xf32, #aten.strides<1, 13>>) -> tensor<8x5xf32>
    %m = aten.mean(%bh) : (tensor<8x5xf32>) -> tensor<f32>
    return %bh, %ar, %m : tensor<8x5xf32>, tensor<8x13xf32>, tensor<f32>
  }
}
