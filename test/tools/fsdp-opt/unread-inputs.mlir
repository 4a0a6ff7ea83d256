// An input that nothing reads is told, by --explain and by a compile, and is no error.

// RUN: fsdp-opt %s --explain 2>%t.explained | FileCheck %s --check-prefix=EXPLAIN
// RUN: FileCheck %s --check-prefix=WARN < %t.explained
// RUN: fsdp-opt %s --config=%S/Inputs/two-ranks.yaml -o %t.fsdp 2>&1 | FileCheck %s --check-prefix=WARN
// RUN: fsdp-opt %t.fsdp -o - | FileCheck %s --check-prefix=KEPT

// EXPLAIN:      inputs of a rank
// EXPLAIN-NEXT:   x: f32[8,5]
// EXPLAIN-NEXT:   mask: f32[8]
// EXPLAIN-NEXT:   read by nothing: mask
// EXPLAIN-NOT:    read by nothing
// EXPLAIN:      not supported: nothing

// WARN:     warning: input 'mask' is read by nothing: what it is given changes no result; if it was one tensor with another input when the model was exported
// WARN-NOT: read by nothing

// KEPT: mask
module @model attributes {fsdp.model = #fsdp.model<"model.pt2", 1, "9f86d081884c7d65", torch "2.11.0">} {
  fsdp.module "" class "Model"
  fsdp.state parameter @w : tensor<5x5xf32> init 0.5 : f32
  func.func @"train/step"(%w: tensor<5x5xf32> {fsdp.state = @w}, %x: tensor<8x5xf32> {fsdp.input = "x"}, %mask: tensor<8xf32> {fsdp.input = "mask"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<5x5xf32> {fsdp.gradient = @w}) attributes {fsdp.captured} {
    %y = aten.mm(%x, %w) : (tensor<8x5xf32>, tensor<5x5xf32>) -> tensor<8x5xf32>
    %loss = aten.sum(%y) : (tensor<8x5xf32>) -> tensor<f32>
    %t = aten.t(%x) : (tensor<8x5xf32>) -> tensor<5x8xf32, #aten.strides<1, 5>>
    %g = aten.mm(%t, %y) : (tensor<5x8xf32, #aten.strides<1, 5>>, tensor<8x5xf32>) -> tensor<5x5xf32>
    return %loss, %g : tensor<f32>, tensor<5x5xf32>
  }
}
