#tp = #fsdp.group<"tp", 2>
module {
  fsdp.state parameter @up : tensor<4x4xf32> split <dim 1 over #tp>
  fsdp.state parameter @down : tensor<4x4xf32> split <dim 0 over #tp>
  fsdp.state parameter @norm : tensor<4xf32>
  func.func @"train/step"(%up: tensor<4x4xf32> {fsdp.state = @up}, %down: tensor<4x4xf32> {fsdp.state = @down}, %norm: tensor<4xf32> {fsdp.state = @norm}, %x: tensor<2x4xf32> {fsdp.input = "x"}, %g: tensor<4x2xf32> {fsdp.input = "g"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<f32> {fsdp.output = "accuracy"}, tensor<4x4xf32> {fsdp.gradient = @up}, tensor<4x4xf32> {fsdp.gradient = @down}, tensor<4xf32> {fsdp.gradient = @norm}) attributes {fsdp.captured} {
    %h = aten.mm(%x, %up) : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %p = aten.mm(%h, %down) : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %y = fsdp.all_reduce sum %p over #tp : tensor<2x4xf32>
    %c = fsdp.shard %norm dim 0 over #tp : tensor<4xf32> -> tensor<2xf32>
    %i = aten.sum(%c) : (tensor<2xf32>) -> tensor<f32>
    %j = aten.sum(%y) : (tensor<2x4xf32>) -> tensor<f32>
    %k = aten.add.Tensor(%i, %j) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %l = fsdp.all_reduce sum %k over #tp : tensor<f32>
    %a = fsdp.all_gather %h dim 1 over #tp : tensor<2x4xf32> -> tensor<2x8xf32>
    %b = aten._to_copy(%a, dtype = bf16) : (tensor<2x8xf32>) -> tensor<2x8xbf16>
    %m = aten.sum(%b) : (tensor<2x8xbf16>) -> tensor<bf16>
    %n = aten._to_copy(%m, dtype = f32) : (tensor<bf16>) -> tensor<f32>
    %q = aten.mm(%y, %down) : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %gup = aten.mm(%g, %q) : (tensor<4x2xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
    %gdown = aten.mm(%g, %y) : (tensor<4x2xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
    %gn = aten.neg(%norm) : (tensor<4xf32>) -> tensor<4xf32>
    return %l, %n, %gup, %gdown, %gn : tensor<f32>, tensor<f32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4xf32>
  }
}
