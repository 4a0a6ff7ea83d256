// Functional ops merge and disappear; writing ones do neither.
// RUN: fsdp-opt %s --cse | FileCheck %s

// CHECK-LABEL: func.func @pure
func.func @pure(%a: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  // CHECK: %[[R:.*]] = aten.add.Tensor(%{{.*}}, %{{.*}})
  // CHECK-NEXT: %[[S:.*]] = aten.add.Tensor(%{{.*}}, %{{.*}}, alpha = 2)
  // CHECK-NEXT: return %[[R]], %[[R]], %[[S]]
  %0 = aten.add.Tensor(%a, %a) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = aten.add.Tensor(%a, %a, alpha = 1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %2 = aten.add.Tensor(%a, %a, alpha = 2) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %3 = aten.relu(%a) : (tensor<4xf32>) -> tensor<4xf32>
  return %0, %1, %2 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// CHECK-LABEL: func.func @in_place
func.func @in_place(%a: tensor<4xf32>) {
  // CHECK-COUNT-2: aten.relu_
  %0 = aten.relu_(%a) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = aten.relu_(%a) : (tensor<4xf32>) -> tensor<4xf32>
  return
}
