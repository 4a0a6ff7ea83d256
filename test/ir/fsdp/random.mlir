// Draws are pure: equal ones merge, those of other sites or distributions do
// not, and a draw that nothing reads disappears.
// RUN: fsdp-opt %s --cse --verify-roundtrip | FileCheck %s
// RUN: fsdp-opt %s --mlir-print-op-generic | fsdp-opt --cse | FileCheck %s

// CHECK-LABEL: func.func @sites
// CHECK-SAME: %[[R:.*]]: tensor<2xi64>
func.func @sites(%r: tensor<2xi64>) -> (tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>) {
  // CHECK-NEXT: %[[A:.*]] = fsdp.draw bernoulli with [5.000000e-01] site 0 from %[[R]] : (tensor<2xi64>) -> tensor<4xi1>
  // CHECK-NEXT: %[[B:.*]] = fsdp.draw bernoulli with [5.000000e-01] site 1 from %[[R]]
  // CHECK-NEXT: %[[C:.*]] = fsdp.draw bernoulli with [2.500000e-01] site 0 from %[[R]]
  // CHECK-NEXT: return %[[A]], %[[A]], %[[B]], %[[C]]
  %a = fsdp.draw bernoulli with [0.5] site 0 from %r : (tensor<2xi64>) -> tensor<4xi1>
  %again = fsdp.draw bernoulli with [0.5] site 0 from %r : (tensor<2xi64>) -> tensor<4xi1>
  %b = fsdp.draw bernoulli with [0.5] site 1 from %r : (tensor<2xi64>) -> tensor<4xi1>
  %c = fsdp.draw bernoulli with [0.25] site 0 from %r : (tensor<2xi64>) -> tensor<4xi1>
  %unused = fsdp.draw uniform with [0.0, 1.0] site 2 from %r : (tensor<2xi64>) -> tensor<4xf32>
  return %a, %again, %b, %c : tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>
}

// A second life of the state keeps a draw apart and repeats it: the site stays.
// CHECK-LABEL: func.func @replay
func.func @replay(%r: tensor<2xi64>) -> (tensor<4xi1>, tensor<4xi1>) {
  // CHECK: %[[A:.*]] = fsdp.draw bernoulli with [5.000000e-01] site 3 from
  // CHECK: %[[S:.*]] = fsdp.replay
  // CHECK: %[[B:.*]] = fsdp.draw bernoulli with [5.000000e-01] site 3 from %[[S]]
  // CHECK: return %[[A]], %[[B]]
  %a = fsdp.draw bernoulli with [0.5] site 3 from %r : (tensor<2xi64>) -> tensor<4xi1>
  %s = fsdp.replay %r : tensor<2xi64>
  %b = fsdp.draw bernoulli with [0.5] site 3 from %s : (tensor<2xi64>) -> tensor<4xi1>
  return %a, %b : tensor<4xi1>, tensor<4xi1>
}

// Numbers keep all their digits.
// CHECK-LABEL: func.func @digits
func.func @digits(%r: tensor<2xi64>) -> tensor<4xi1> {
  // CHECK: fsdp.draw bernoulli with [0.0050000000000000044] site 0
  %a = fsdp.draw bernoulli with [0.0050000000000000044] site 0 from %r : (tensor<2xi64>) -> tensor<4xi1>
  return %a : tensor<4xi1>
}

// Ranges, parameters by element, and any order of the dims.
// CHECK-LABEL: func.func @forms
func.func @forms(%r: tensor<2xi64>, %n: tensor<3xf32>, %p: tensor<3xf32>)
    -> (tensor<5xi64>, tensor<3xf32>, tensor<2x3xf32, #aten.strides<1, 2>>) {
  // CHECK: fsdp.draw integer range [-3, 9] site 0 from %{{.*}} : (tensor<2xi64>) -> tensor<5xi64>
  // CHECK: fsdp.draw binomial site 1 from %{{.*}} given %{{.*}}, %{{.*}} : (tensor<2xi64>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  // CHECK: fsdp.draw normal with [0.000000e+00, 1.000000e+00] site 2 from %{{.*}} : (tensor<2xi64>) -> tensor<2x3xf32, #aten.strides<1, 2>>
  %0 = fsdp.draw integer range [-3, 9] site 0 from %r : (tensor<2xi64>) -> tensor<5xi64>
  %1 = fsdp.draw binomial site 1 from %r given %n, %p : (tensor<2xi64>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %2 = fsdp.draw normal with [0.0, 1.0] site 2 from %r : (tensor<2xi64>) -> tensor<2x3xf32, #aten.strides<1, 2>>
  return %0, %1, %2 : tensor<5xi64>, tensor<3xf32>, tensor<2x3xf32, #aten.strides<1, 2>>
}
