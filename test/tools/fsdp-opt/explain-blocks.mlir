// Equal blocks share a row, ties and buffers are told, and the suggested config
// names the blocks' class.

// RUN: fsdp-opt %s --explain | FileCheck %s

// CHECK:      trainable 4 98 392 B
// CHECK-NEXT: buffers 1 1 8 B
// CHECK-NEXT: tied: in.weight = out.weight
// CHECK-NEXT: no data: 5 tensors ('in.weight', 'layers.0.fc.weight', 'layers.1.fc.weight', 'scale', …); --weights or init rules give them values
// CHECK:      3 x Linear
// CHECK-NEXT: 2 x Block
// CHECK:      layers.0 … layers.1, each of 2 Block 1 25 100 B
// CHECK:      auto_wrap_policy: TRANSFORMER_BASED_WRAP
// CHECK-NEXT: transformer_layer_cls_to_wrap: Block
module @model attributes {fsdp.model = #fsdp.model<"model.pt2", 1, "9f86d081884c7d65", torch "2.11.0">} {
  fsdp.module "in" class "Linear"
  fsdp.module "layers.0" class "Block"
  fsdp.module "layers.1" class "Block"
  fsdp.module "layers.0.fc" class "Linear"
  fsdp.module "layers.1.fc" class "Linear"
  fsdp.state parameter @in.weight : tensor<5x5xf32> names ["in.weight", "out.weight"]
  fsdp.state parameter @layers.0.fc.weight : tensor<5x5xf32>
  fsdp.state parameter @layers.1.fc.weight : tensor<5x5xf32>
  fsdp.state parameter @scale : tensor<23xf32>
  fsdp.state buffer @count : tensor<1xi64>
  func.func @"train/step"(%w: tensor<5x5xf32> {fsdp.state = @in.weight},
      %a: tensor<5x5xf32> {fsdp.state = @layers.0.fc.weight},
      %b: tensor<5x5xf32> {fsdp.state = @layers.1.fc.weight},
      %s: tensor<23xf32> {fsdp.state = @scale},
      %c: tensor<1xi64> {fsdp.state = @count},
      %x: tensor<5x5xf32> {fsdp.input = "x"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<5x5xf32> {fsdp.gradient = @in.weight},
          tensor<5x5xf32> {fsdp.gradient = @layers.0.fc.weight},
          tensor<5x5xf32> {fsdp.gradient = @layers.1.fc.weight},
          tensor<23xf32> {fsdp.gradient = @scale}) attributes {fsdp.captured} {
    %0 = aten.mm(%x, %w) : (tensor<5x5xf32>, tensor<5x5xf32>) -> tensor<5x5xf32>
    %1 = aten.mm(%0, %a) : (tensor<5x5xf32>, tensor<5x5xf32>) -> tensor<5x5xf32>
    %2 = aten.mm(%1, %b) : (tensor<5x5xf32>, tensor<5x5xf32>) -> tensor<5x5xf32>
    %l0 = aten.sum(%2) : (tensor<5x5xf32>) -> tensor<f32>
    %l1 = aten.sum(%s) : (tensor<23xf32>) -> tensor<f32>
    %loss = aten.add.Tensor(%l0, %l1) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %ga = aten.mm(%0, %2) : (tensor<5x5xf32>, tensor<5x5xf32>) -> tensor<5x5xf32>
    %gb = aten.mm(%1, %2) : (tensor<5x5xf32>, tensor<5x5xf32>) -> tensor<5x5xf32>
    %gw = aten.mm(%x, %2) : (tensor<5x5xf32>, tensor<5x5xf32>) -> tensor<5x5xf32>
    %gs = aten.ones_like(%s) : (tensor<23xf32>) -> tensor<23xf32>
    return %loss, %gw, %ga, %gb, %gs : tensor<f32>, tensor<5x5xf32>, tensor<5x5xf32>, tensor<5x5xf32>, tensor<23xf32>
  }
}
