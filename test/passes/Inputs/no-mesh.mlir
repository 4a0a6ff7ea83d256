module {
  func.func @"infer/step"(%x: tensor<f32> {fsdp.input = "x"}) -> (tensor<f32> {fsdp.output = "loss"}) attributes {fsdp.program = #fsdp.program<kind = infer>, fsdp.captured} {
    return %x : tensor<f32>
  }
}
