// RUN: fsdp-opt %s --fsdp-plan-memory --fsdp-verify-planned --split-input-file | FileCheck %s
//
// An elementwise op's result takes the place of an operand that dies there, and
// the program says so.

module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>} {
  // CHECK-LABEL: @"train/step"
  // CHECK-SAME: attributes {fsdp.reuse}
  func.func @"train/step"(%x: tensor<64xf32> {fsdp.input = "x"}) -> (tensor<64xf32> {fsdp.output = "y"}, tensor<f32> {fsdp.output = "z"}) {
    // An input stays for the whole program.
    // CHECK: aten.relu{{.*}} {fsdp.at = array<i64: 256>}
    %a = aten.relu(%x) : (tensor<64xf32>) -> tensor<64xf32>
    // CHECK: aten.neg{{.*}} {fsdp.at = array<i64: 256>}
    %b = aten.neg(%a) : (tensor<64xf32>) -> tensor<64xf32>
    // The chain goes on, also through an op that takes the operand twice.
    // CHECK: aten.mul{{.*}} {fsdp.at = array<i64: 256>}
    %c = aten.mul.Tensor(%b, %b) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
    // Read later: not here.
    // CHECK: aten.neg{{.*}} {fsdp.at = array<i64: 512>}
    %d = aten.neg(%c) : (tensor<64xf32>) -> tensor<64xf32>
    // Another order of the same elements is read meanwhile: not here.
    %v = aten.view(%d, size = [8, 8]) : (tensor<64xf32>) -> tensor<8x8xf32>
    %t = aten.t(%v) : (tensor<8x8xf32>) -> tensor<8x8xf32, #aten.strides<1, 8>>
    // CHECK: aten.add{{.*}} {fsdp.at = array<i64: 768>}
    %e = aten.add.Tensor(%v, %t) : (tensor<8x8xf32>, tensor<8x8xf32, #aten.strides<1, 8>>) -> tensor<8x8xf32>
    // No elementwise op, or another type: not here.
    // CHECK: aten.cumsum{{.*}} {fsdp.at = array<i64: 512>}
    %f = aten.cumsum(%e, dim = 0) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    // CHECK: aten.gt{{.*}} {fsdp.at = array<i64: 768>}
    %g = aten.gt.Scalar(%f, other = 0.0) : (tensor<8x8xf32>) -> tensor<8x8xi1>
    %z = aten.sum(%g) : (tensor<8x8xi1>) -> tensor<i64>
    %y = aten._to_copy(%z, dtype = f32) : (tensor<i64>) -> tensor<f32>
    return %c, %y : tensor<64xf32>, tensor<f32>
  }
}

// -----

// A kernel takes the place of what it reads in another shape.

module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>} {
  // CHECK-LABEL: @"train/step"
  // CHECK-SAME: attributes {fsdp.reuse}
  func.func @"train/step"(%x: tensor<64xf32> {fsdp.input = "x"}) -> (tensor<f32> {fsdp.output = "y"}) {
    // CHECK: aten.cumsum{{.*}} {fsdp.at = array<i64: 256>}
    %a = aten.cumsum(%x, dim = 0) : (tensor<64xf32>) -> tensor<64xf32>
    %v = aten.view(%a, size = [8, 8]) : (tensor<64xf32>) -> tensor<8x8xf32>
    // CHECK: fsdp.kernel{{.*}} {fsdp.at = array<i64: 256>}
    %b = fsdp.kernel(%v) in_place [true] : (tensor<8x8xf32>) -> tensor<8x8xf32> {
    ^bb0(%0: tensor<8x8xf32>):
      %1 = aten.exp(%0) : (tensor<8x8xf32>) -> tensor<8x8xf32>
      %2 = aten.neg(%1) : (tensor<8x8xf32>) -> tensor<8x8xf32>
      fsdp.yield %2 : tensor<8x8xf32>
    }
    // Of which others read a part in another order: not here.
    %t = aten.t(%b) : (tensor<8x8xf32>) -> tensor<8x8xf32, #aten.strides<1, 8>>
    // CHECK: fsdp.kernel{{.*}} {fsdp.at = array<i64: 512>}
    %c = fsdp.kernel(%b, %t) in_place [true, false] : (tensor<8x8xf32>, tensor<8x8xf32, #aten.strides<1, 8>>) -> tensor<8x8xf32> {
    ^bb0(%0: tensor<8x8xf32>, %1: tensor<8x8xf32, #aten.strides<1, 8>>):
      %2 = aten.mul.Tensor(%0, %1) : (tensor<8x8xf32>, tensor<8x8xf32, #aten.strides<1, 8>>) -> tensor<8x8xf32>
      fsdp.yield %2 : tensor<8x8xf32>
    }
    %y = aten.sum(%c) : (tensor<8x8xf32>) -> tensor<f32>
    return %y : tensor<f32>
  }
}
