// RUN: fsdp-opt %s --split-input-file --fsdp-plan-memory --fsdp-verify-planned --fsdp-verify-memory | FileCheck %s
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

// -----

// What is added to may have another shape, if it is all that lies there: not a part, nor
// a transpose.

module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>} {
  // CHECK-LABEL: @"train/step"
  // CHECK-SAME: attributes {fsdp.reuse = "sums"}
  func.func @"train/step"(%x: tensor<8x8xf32> {fsdp.input = "x"}, %y: tensor<2x4x8xf32> {fsdp.input = "y"}) -> (tensor<8x8xf32> {fsdp.output = "y"}, tensor<8x8xf32> {fsdp.output = "z"}, tensor<8x8xf32> {fsdp.output = "u"}) {
    // CHECK: aten.cumsum{{.*}} {fsdp.at = array<i64: [[SUM:[0-9]+]]>}
    %a = aten.cumsum(%y, dim = 0) : (tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
    %b = aten.view(%a, size = [8, 8]) : (tensor<2x4x8xf32>) -> tensor<8x8xf32>
    // CHECK: aten.addmm{{.*}} {fsdp.at = array<i64: [[SUM]]>}
    %c = aten.addmm(%b, %x, %x) : (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    // CHECK: aten.cat{{.*}} {fsdp.at = array<i64: [[CAT:[0-9]+]]>}
    %d = aten.cat([%x, %x], dim = 0) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
    %e = aten.slice.Tensor(%d, dim = 0, start = 0, end = 8) : (tensor<16x8xf32>) -> tensor<8x8xf32>
    // CHECK-NOT: array<i64: [[CAT]]>
    // CHECK: aten.addmm
    %f = aten.addmm(%e, %x, %x) : (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    // CHECK: aten.cumsum{{.*}} {fsdp.at = array<i64: [[COLUMNS:[0-9]+]]>}
    %g = aten.cumsum(%x, dim = 0) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %h = aten.t(%g) : (tensor<8x8xf32>) -> tensor<8x8xf32, #aten.strides<1, 8>>
    // CHECK-NOT: array<i64: [[COLUMNS]]>
    // CHECK: return
    %i = aten.addmm(%h, %x, %x) : (tensor<8x8xf32, #aten.strides<1, 8>>, tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    return %c, %f, %i : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
  }
}
