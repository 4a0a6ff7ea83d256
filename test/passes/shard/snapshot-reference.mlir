// RUN: fsdp-opt %s --fsdp-snapshot-reference --split-input-file --verify-diagnostics | FileCheck %s
// RUN: fsdp-opt %s --fsdp-snapshot-reference --fsdp-drop-reference --split-input-file --verify-diagnostics | FileCheck %s --check-prefix=DROP

// The copy keeps its mark; a function that is not captured gets none.

// CHECK-DAG:  func.func @"train/step"({{.*}}attributes {fsdp.captured}
// CHECK-DAG:  func.func @"reference/train/step"({{.*}}attributes {fsdp.captured, fsdp.program = #fsdp.program<reference = true>}
// CHECK-NOT:  @"reference/train/other"
// DROP:       @"train/step"
// DROP-NOT:   reference
module {
  func.func @"train/step"(%x: tensor<f32> {fsdp.input = "x"}) -> (tensor<f32> {fsdp.output = "loss"}) attributes {fsdp.captured} {
    return %x : tensor<f32>
  }
  func.func @"train/other"(%x: tensor<f32> {fsdp.input = "x"}) -> (tensor<f32> {fsdp.output = "loss"}) {
    return %x : tensor<f32>
  }
}

// -----

module {
  // expected-error @+1 {{has a reference already; run fsdp-drop-reference before another snapshot}}
  func.func @"train/step"(%x: tensor<f32> {fsdp.input = "x"}) -> (tensor<f32> {fsdp.output = "loss"}) attributes {fsdp.captured} {
    return %x : tensor<f32>
  }
  // expected-note @+1 {{the reference}}
  func.func @"reference/train/step"(%x: tensor<f32> {fsdp.input = "x"}) -> (tensor<f32> {fsdp.output = "loss"}) attributes {fsdp.program = #fsdp.program<reference = true>, fsdp.captured} {
    return %x : tensor<f32>
  }
}
