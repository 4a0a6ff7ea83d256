// Linear(17, 13), relu, Linear(13, 5), relu, Linear(5, 3), mean squared error:
// sizes that 4 ranks divide nowhere.
module @uneven attributes {fsdp.model = #fsdp.model<"uneven.pt2", 8192, "0123456789abcdef", torch "2.11.0">} {
  fsdp.module "" class "Net"
  fsdp.module "a" class "Linear"
  fsdp.module "b" class "Linear"
  fsdp.module "c" class "Linear"
  fsdp.state parameter @a.weight : tensor<13x17xf32> source <"data/weights/weight_0" at 64 : 884>
  fsdp.state parameter @a.bias : tensor<13xf32> source <"data/weights/weight_1" at 1024 : 52>
  fsdp.state parameter @b.weight : tensor<5x13xf32> source <"data/weights/weight_2" at 1152 : 260>
  fsdp.state parameter @b.bias : tensor<5xf32> source <"data/weights/weight_3" at 1472 : 20>
  fsdp.state parameter @c.weight : tensor<3x5xf32> source <"data/weights/weight_4" at 1536 : 60>
  fsdp.state parameter @c.bias : tensor<3xf32> source <"data/weights/weight_5" at 1600 : 12>
  func.func @"train/step"(
      %aw: tensor<13x17xf32> {fsdp.state = @a.weight}, %ab: tensor<13xf32> {fsdp.state = @a.bias},
      %bw: tensor<5x13xf32> {fsdp.state = @b.weight}, %bb: tensor<5xf32> {fsdp.state = @b.bias},
      %cw: tensor<3x5xf32> {fsdp.state = @c.weight}, %cb: tensor<3xf32> {fsdp.state = @c.bias},
      %x: tensor<8x17xf32> {fsdp.input = "x"}, %y: tensor<8x3xf32> {fsdp.input = "y"})
      -> (tensor<f32> {fsdp.output = "loss"},
          tensor<13x17xf32> {fsdp.gradient = @a.weight}, tensor<13xf32> {fsdp.gradient = @a.bias},
          tensor<5x13xf32> {fsdp.gradient = @b.weight}, tensor<5xf32> {fsdp.gradient = @b.bias},
          tensor<3x5xf32> {fsdp.gradient = @c.weight}, tensor<3xf32> {fsdp.gradient = @c.bias})
      attributes {fsdp.captured} {
    %awt = aten.t(%aw) : (tensor<13x17xf32>) -> tensor<17x13xf32, #aten.strides<1, 17>>
    %ah = aten.addmm(%ab, %x, %awt) : (tensor<13xf32>, tensor<8x17xf32>, tensor<17x13xf32, #aten.strides<1, 17>>) -> tensor<8x13xf32>
    %ar = aten.relu(%ah) : (tensor<8x13xf32>) -> tensor<8x13xf32>
    %bwt = aten.t(%bw) : (tensor<5x13xf32>) -> tensor<13x5xf32, #aten.strides<1, 13>>
    %bh = aten.addmm(%bb, %ar, %bwt) : (tensor<5xf32>, tensor<8x13xf32>, tensor<13x5xf32, #aten.strides<1, 13>>) -> tensor<8x5xf32>
    %br = aten.relu(%bh) : (tensor<8x5xf32>) -> tensor<8x5xf32>
    %cwt = aten.t(%cw) : (tensor<3x5xf32>) -> tensor<5x3xf32, #aten.strides<1, 5>>
    %o = aten.addmm(%cb, %br, %cwt) : (tensor<3xf32>, tensor<8x5xf32>, tensor<5x3xf32, #aten.strides<1, 5>>) -> tensor<8x3xf32>
    %loss = aten.mse_loss(%o, %y) : (tensor<8x3xf32>, tensor<8x3xf32>) -> tensor<f32>
    %one = aten.ones_like(%loss) : (tensor<f32>) -> tensor<f32>
    %go = aten.mse_loss_backward(%one, %o, %y, reduction = 1) : (tensor<f32>, tensor<8x3xf32>, tensor<8x3xf32>) -> tensor<8x3xf32>
    %gbr = aten.mm(%go, %cw) : (tensor<8x3xf32>, tensor<3x5xf32>) -> tensor<8x5xf32>
    %got = aten.t(%go) : (tensor<8x3xf32>) -> tensor<3x8xf32, #aten.strides<1, 3>>
    %gcw = aten.mm(%got, %br) : (tensor<3x8xf32, #aten.strides<1, 3>>, tensor<8x5xf32>) -> tensor<3x5xf32>
    %gcb = aten.sum.dim_IntList(%go, dim = [0]) : (tensor<8x3xf32>) -> tensor<3xf32>
    %gbh = aten.threshold_backward(%gbr, %br, threshold = 0) : (tensor<8x5xf32>, tensor<8x5xf32>) -> tensor<8x5xf32>
    %gar = aten.mm(%gbh, %bw) : (tensor<8x5xf32>, tensor<5x13xf32>) -> tensor<8x13xf32>
    %gbt = aten.t(%gbh) : (tensor<8x5xf32>) -> tensor<5x8xf32, #aten.strides<1, 5>>
    %gbw = aten.mm(%gbt, %ar) : (tensor<5x8xf32, #aten.strides<1, 5>>, tensor<8x13xf32>) -> tensor<5x13xf32>
    %gbb = aten.sum.dim_IntList(%gbh, dim = [0]) : (tensor<8x5xf32>) -> tensor<5xf32>
    %gah = aten.threshold_backward(%gar, %ar, threshold = 0) : (tensor<8x13xf32>, tensor<8x13xf32>) -> tensor<8x13xf32>
    %gat = aten.t(%gah) : (tensor<8x13xf32>) -> tensor<13x8xf32, #aten.strides<1, 13>>
    %gaw = aten.mm(%gat, %x) : (tensor<13x8xf32, #aten.strides<1, 13>>, tensor<8x17xf32>) -> tensor<13x17xf32>
    %gab = aten.sum.dim_IntList(%gah, dim = [0]) : (tensor<8x13xf32>) -> tensor<13xf32>
    return %loss, %gaw, %gab, %gbw, %gbb, %gcw, %gcb : tensor<f32>, tensor<13x17xf32>, tensor<13xf32>, tensor<5x13xf32>, tensor<5xf32>, tensor<3x5xf32>, tensor<3xf32>
  }
}
