// RUN: fsdp-opt %s --fsdp-insert-metrics --split-input-file | FileCheck %s
// RUN: not fsdp-opt %S/../Inputs/no-mesh.mlir --fsdp-insert-metrics 2>&1 | FileCheck %s --check-prefix=MESH
// MESH: expects a sharded program; run fsdp-shard-parameters first

// Floating-point numbers are averaged, in f32; an integer, a vector and the loss
// of a training program are not.

#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  // CHECK-LABEL: func.func @"train/step"
  // CHECK-SAME:  -> (tensor<f32> {fsdp.output = "loss"}, tensor<f64> {fsdp.output = "accuracy"}, tensor<i64> {fsdp.output = "count"}, tensor<4xf32> {fsdp.output = "row"}, tensor<f32> {fsdp.metric = "accuracy"})
  func.func @"train/step"(%x: tensor<4xf32> {fsdp.input = "x"}, %a: tensor<f64> {fsdp.input = "a"}, %n: tensor<i64> {fsdp.input = "n"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<f64> {fsdp.output = "accuracy"}, tensor<i64> {fsdp.output = "count"}, tensor<4xf32> {fsdp.output = "row"}) {
    // CHECK: %[[A:.+]] = aten.neg
    // CHECK: %[[A32:.+]] = aten._to_copy(%[[A]], dtype = f32)
    // CHECK: %[[R:.+]] = aten.neg(%{{.+}})
    // CHECK: %[[L:.+]] = aten.sum
    // CHECK-NEXT: %[[M:.+]] = fsdp.all_reduce avg %[[A32]] over #[[G:.+]] for metric : tensor<f32>
    // CHECK-NEXT: return %[[L]], %[[A]], %{{.+}}, %[[R]], %[[M]]
    %b = aten.neg(%a) : (tensor<f64>) -> tensor<f64>
    %r = aten.neg(%x) : (tensor<4xf32>) -> tensor<4xf32>
    %l = aten.sum(%x) : (tensor<4xf32>) -> tensor<f32>
    return %l, %b, %n, %r : tensor<f32>, tensor<f64>, tensor<i64>, tensor<4xf32>
  }
}

// -----

// For inference the loss is an output like any other.

#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  // CHECK-LABEL: func.func @"infer/step"
  // CHECK-SAME:  -> (tensor<f32> {fsdp.output = "loss"}, tensor<f32> {fsdp.metric = "loss"})
  func.func @"infer/step"(%x: tensor<4xf32> {fsdp.input = "x"}) -> (tensor<f32> {fsdp.output = "loss"}) attributes {fsdp.program = #fsdp.program<kind = infer>} {
    %l = aten.sum(%x) : (tensor<4xf32>) -> tensor<f32>
    return %l : tensor<f32>
  }
}

// -----

// One rank's number is the mean.

module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>} {
  // CHECK-LABEL: func.func @"infer/step"
  // CHECK-NOT:   all_reduce
  // CHECK:       return %[[L:.+]], %[[L]] : tensor<f32>, tensor<f32>
  func.func @"infer/step"(%x: tensor<4xf32> {fsdp.input = "x"}) -> (tensor<f32> {fsdp.output = "loss"}) attributes {fsdp.program = #fsdp.program<kind = infer>} {
    %l = aten.sum(%x) : (tensor<4xf32>) -> tensor<f32>
    return %l : tensor<f32>
  }
}
