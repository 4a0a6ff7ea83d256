// RUN: fsdp-opt %s --fsdp-fuse-kernels --split-input-file | FileCheck %s
// RUN: fsdp-opt %s --fsdp-fuse-kernels --split-input-file --remarks-filter=kernels 2>&1 | FileCheck %s --check-prefix=REMARK

// The gradients of one input, through views: the later products add to the first, and
// kernels get what is left.

// REMARK: remark: [Passed] Added | Category:kernels | Function=train/step | Reason="kernels: on", Remark="the product adds to the other summand while it is computed, in its place"
// REMARK: remark: [Passed] Added | Category:kernels | Function=train/step | Reason="kernels: on", Remark="the product adds to the other summand while it is computed, in its place"

module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>, fsdp.step = #fsdp.step<kernels = true>} {
  // CHECK-LABEL: @"train/step"
  // CHECK-NEXT: %[[V:.*]] = aten.mm(%arg0, %arg1) : (tensor<8x4xf32>, tensor<4x6xf32>) -> tensor<8x6xf32>
  // CHECK-NEXT: %[[K:.*]] = aten.addmm(%[[V]], %arg0, %arg2) : (tensor<8x6xf32>, tensor<8x4xf32>, tensor<4x6xf32>) -> tensor<8x6xf32>
  // CHECK-NEXT: %[[Q:.*]] = aten.addmm(%[[K]], %arg0, %arg3)
  // CHECK-NEXT: %[[S:.*]] = aten.view(%[[Q]], size = [2, 4, 6])
  // CHECK-NEXT: %[[N:.*]] = aten.neg(%[[S]])
  // CHECK-NEXT: return %[[N]]
  func.func @"train/step"(%x: tensor<8x4xf32> {fsdp.input = "x"}, %wv: tensor<4x6xf32> {fsdp.input = "v"}, %wk: tensor<4x6xf32> {fsdp.input = "k"}, %wq: tensor<4x6xf32> {fsdp.input = "q"}) -> (tensor<2x4x6xf32> {fsdp.output = "z"}) {
    %v = aten.mm(%x, %wv) : (tensor<8x4xf32>, tensor<4x6xf32>) -> tensor<8x6xf32>
    %v3 = aten.view(%v, size = [2, 4, 6]) : (tensor<8x6xf32>) -> tensor<2x4x6xf32>
    %k = aten.mm(%x, %wk) : (tensor<8x4xf32>, tensor<4x6xf32>) -> tensor<8x6xf32>
    %k3 = aten.view(%k, size = [2, 4, 6]) : (tensor<8x6xf32>) -> tensor<2x4x6xf32>
    %s = aten.add.Tensor(%v3, %k3) : (tensor<2x4x6xf32>, tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
    %q = aten.mm(%x, %wq) : (tensor<8x4xf32>, tensor<4x6xf32>) -> tensor<8x6xf32>
    %q3 = aten.view(%q, size = [2, 4, 6]) : (tensor<8x6xf32>) -> tensor<2x4x6xf32>
    %t = aten.add.Tensor(%s, %q3) : (tensor<2x4x6xf32>, tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
    %z = aten.neg(%t) : (tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
    return %z : tensor<2x4x6xf32>
  }
}

// -----

// What is no product as well, if it is there before the product and dies: its view is
// made where the product stands. All sums behind all products are as good.

module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>, fsdp.step = #fsdp.step<kernels = true>} {
  // CHECK-LABEL: @"train/step"
  // CHECK-NEXT: %[[R:.*]] = aten.cumsum
  // CHECK-NEXT: %[[M:.*]] = aten.view(%[[R]], size = [8, 6])
  // CHECK-NEXT: %[[A:.*]] = aten.addmm(%[[M]], %arg0, %arg1)
  // CHECK-NEXT: %[[B:.*]] = aten.addmm(%[[A]], %arg0, %arg1)
  // CHECK-NEXT: %[[Z:.*]] = aten.view(%[[B]], size = [2, 4, 6])
  // CHECK-NEXT: return %[[Z]]
  func.func @"train/step"(%x: tensor<8x4xbf16> {fsdp.input = "x"}, %w: tensor<4x6xbf16> {fsdp.input = "w"}, %y: tensor<2x4x6xbf16> {fsdp.input = "y"}) -> (tensor<2x4x6xbf16> {fsdp.output = "z"}) {
    %r = aten.cumsum(%y, dim = 0) : (tensor<2x4x6xbf16>) -> tensor<2x4x6xbf16>
    %a = aten.mm(%x, %w) : (tensor<8x4xbf16>, tensor<4x6xbf16>) -> tensor<8x6xbf16>
    %b = aten.mm(%x, %w) : (tensor<8x4xbf16>, tensor<4x6xbf16>) -> tensor<8x6xbf16>
    %a3 = aten._unsafe_view(%a, size = [2, 4, 6]) : (tensor<8x6xbf16>) -> tensor<2x4x6xbf16>
    %b3 = aten._unsafe_view(%b, size = [2, 4, 6]) : (tensor<8x6xbf16>) -> tensor<2x4x6xbf16>
    %s = aten.add.Tensor(%a3, %r) : (tensor<2x4x6xbf16>, tensor<2x4x6xbf16>) -> tensor<2x4x6xbf16>
    %t = aten.add.Tensor(%b3, %s) : (tensor<2x4x6xbf16>, tensor<2x4x6xbf16>) -> tensor<2x4x6xbf16>
    return %t : tensor<2x4x6xbf16>
  }
}

// -----

// Nobody asked.

module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>} {
  // CHECK-LABEL: @"train/step"
  // CHECK-NOT: aten.addmm
  func.func @"train/step"(%x: tensor<4x4xf32> {fsdp.input = "x"}) -> (tensor<4x4xf32> {fsdp.output = "z"}) {
    %a = aten.mm(%x, %x) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %b = aten.mm(%x, %x) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %c = aten.add.Tensor(%a, %b) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    return %c : tensor<4x4xf32>
  }
}

// -----

// Not with a factor; nor an input, in whose place nothing may be; nor what others read
// afterwards, be it the matrix or the product; nor itself.

module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>, fsdp.step = #fsdp.step<kernels = true>} {
  // CHECK-LABEL: @"train/step"
  // CHECK-NOT: aten.addmm
  func.func @"train/step"(%x: tensor<4x4xf32> {fsdp.input = "x"}) -> (tensor<4x4xf32> {fsdp.output = "a"}, tensor<4x4xf32> {fsdp.output = "b"}, tensor<4x4xf32> {fsdp.output = "c"}, tensor<4x4xf32> {fsdp.output = "d"}, tensor<4x4xf32> {fsdp.output = "e"}) {
    %a = aten.cumsum(%x, dim = 0) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %b = aten.mm(%x, %x) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %twice = aten.add.Tensor(%a, %b, alpha = 2) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %c = aten.mm(%x, %x) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %input = aten.add.Tensor(%x, %c) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %d = aten.cumsum(%x, dim = 0) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %e = aten.mm(%x, %x) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %kept = aten.add.Tensor(%d, %e) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %late = aten.neg(%d) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %f = aten.cumsum(%x, dim = 0) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %g = aten.mm(%f, %x) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %factor = aten.add.Tensor(%f, %g) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    return %twice, %input, %kept, %late, %factor : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
  }
}

// -----

// Not what is made behind the product, as the product's factors would have to live on;
// nor rows of a matrix, other types, or another order of elements; nor where the product
// is read twice, or is a row itself, or where the place is a part of a larger one.

module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>, fsdp.step = #fsdp.step<kernels = true>} {
  // CHECK-LABEL: @"train/step"
  // CHECK-NOT: aten.addmm
  func.func @"train/step"(%x: tensor<4x4xf32> {fsdp.input = "x"}, %y: tensor<4xf32> {fsdp.input = "y"}, %h: tensor<4x4xbf16> {fsdp.input = "h"}) -> (tensor<4x4xf32> {fsdp.output = "a"}, tensor<4x4xf32> {fsdp.output = "b"}, tensor<4x4xf32> {fsdp.output = "c"}, tensor<4x4xf32> {fsdp.output = "d"}, tensor<4x4xf32> {fsdp.output = "e"}, tensor<4x4xf32> {fsdp.output = "f"}, tensor<4x4xf32> {fsdp.output = "g"}) {
    %a = aten.mm(%x, %x) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %b = aten.cumsum(%x, dim = 0) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %behind = aten.add.Tensor(%a, %b) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %c = aten.cumsum(%y, dim = 0) : (tensor<4xf32>) -> tensor<4xf32>
    %d = aten.mm(%x, %x) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %rows = aten.add.Tensor(%d, %c) : (tensor<4x4xf32>, tensor<4xf32>) -> tensor<4x4xf32>
    %e = aten.cumsum(%h, dim = 0) : (tensor<4x4xbf16>) -> tensor<4x4xbf16>
    %f = aten.mm(%x, %x) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %types = aten.add.Tensor(%f, %e) : (tensor<4x4xf32>, tensor<4x4xbf16>) -> tensor<4x4xf32>
    %g = aten.cumsum(%x, dim = 0) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %i = aten.mm(%x, %x) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %j = aten.t(%i) : (tensor<4x4xf32>) -> tensor<4x4xf32, #aten.strides<1, 4>>
    %order = aten.add.Tensor(%g, %j) : (tensor<4x4xf32>, tensor<4x4xf32, #aten.strides<1, 4>>) -> tensor<4x4xf32>
    %k = aten.mm(%x, %x) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %double = aten.add.Tensor(%k, %k) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %l = aten.cumsum(%x, dim = 0) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %m = aten.slice.Tensor(%x, dim = 0, start = 0, end = 1) : (tensor<4x4xf32>) -> tensor<1x4xf32>
    %n = aten.mm(%m, %x) : (tensor<1x4xf32>, tensor<4x4xf32>) -> tensor<1x4xf32>
    %row = aten.add.Tensor(%l, %n) : (tensor<4x4xf32>, tensor<1x4xf32>) -> tensor<4x4xf32>
    %o = aten.cat([%x, %x], dim = 0) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    %p = aten.slice.Tensor(%o, dim = 0, start = 0, end = 4) : (tensor<8x4xf32>) -> tensor<4x4xf32>
    %q = aten.mm(%x, %x) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %part = aten.add.Tensor(%p, %q) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    return %behind, %rows, %types, %order, %double, %row, %part : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
  }
}
