// RUN: fsdp-opt %s --fsdp-plan-memory --fsdp-verify-planned --fsdp-verify-memory | FileCheck %s
//
// Products that are added up take the place of the sum that dies there, so that
// there is one sum at any time; the program says so. Nothing else needs to be reused.

module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>} {
  // CHECK-LABEL: @"train/step"
  // CHECK-SAME: attributes {fsdp.reuse = "sums"}
  func.func @"train/step"(%x: tensor<8x8xf32> {fsdp.input = "x"}) -> (tensor<8x8xf32> {fsdp.output = "y"}, tensor<8x8xf32> {fsdp.output = "z"}) {
    // CHECK: aten.mm{{.*}} {fsdp.at = array<i64: [[SUM:[0-9]+]]>}
    %a = aten.mm(%x, %x) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    // CHECK: aten.addmm{{.*}} {fsdp.at = array<i64: [[SUM]]>}
    %b = aten.addmm(%a, %x, %x) : (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    // CHECK: aten.addmm{{.*}} {fsdp.at = array<i64: [[SUM]]>}
    %c = aten.addmm(%b, %x, %x) : (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    // A factor is read while the result is written, also if it is the sum.
    // CHECK-NOT: [[SUM]]>
    // CHECK: aten.addmm
    %d = aten.addmm(%x, %c, %x) : (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    // CHECK: aten.addmm{{.*}} {fsdp.at = array<i64: [[SUM]]>}
    %e = aten.addmm(%d, %d, %x) : (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    return %d, %e : tensor<8x8xf32>, tensor<8x8xf32>
  }
}
