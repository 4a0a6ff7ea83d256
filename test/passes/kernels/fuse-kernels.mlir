// RUN: fsdp-opt %s --fsdp-fuse-kernels --split-input-file | FileCheck %s

// What is between operators that follow each other is in memory no more; each input
// may be overwritten by the result.

module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>, fsdp.step = #fsdp.step<kernels = true>} {
  // CHECK-LABEL: @"train/step"
  // CHECK-NEXT: %[[K:.*]] = fsdp.kernel(%arg0, %arg1) in_place [true, true] : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32> {
  // CHECK-NEXT: ^bb0(%[[A:.*]]: tensor<64xf32>, %[[B:.*]]: tensor<64xf32>):
  // CHECK-NEXT:   %[[S:.*]] = aten.add.Tensor(%[[A]], %[[B]])
  // CHECK-NEXT:   %[[N:.*]] = aten.neg(%[[S]])
  // CHECK-NEXT:   %[[M:.*]] = aten.mul.Tensor(%[[N]], %[[B]])
  // CHECK-NEXT:   fsdp.yield %[[M]]
  // CHECK-NEXT: }
  // CHECK-NEXT: return %[[K]]
  func.func @"train/step"(%x: tensor<64xf32> {fsdp.input = "x"}, %y: tensor<64xf32> {fsdp.input = "y"}) -> (tensor<64xf32> {fsdp.output = "z"}) {
    %a = aten.add.Tensor(%x, %y) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
    %b = aten.neg(%a) : (tensor<64xf32>) -> tensor<64xf32>
    %c = aten.mul.Tensor(%b, %y) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
    return %c : tensor<64xf32>
  }
}

// -----

// Nobody asked.

module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>} {
  // CHECK-LABEL: @"train/step"
  // CHECK-NOT: fsdp.kernel
  func.func @"train/step"(%x: tensor<64xf32> {fsdp.input = "x"}) -> (tensor<64xf32> {fsdp.output = "z"}) {
    %a = aten.neg(%x) : (tensor<64xf32>) -> tensor<64xf32>
    %b = aten.neg(%a) : (tensor<64xf32>) -> tensor<64xf32>
    return %b : tensor<64xf32>
  }
}

// -----

// What others read is yielded as well, and its views stand behind the kernel. One
// operator is LibTorch's.

module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>, fsdp.step = #fsdp.step<kernels = true>} {
  // CHECK-LABEL: @"train/step"
  // CHECK-NEXT: %[[K:.*]]:2 = fsdp.kernel(%arg0)
  // CHECK: fsdp.yield %{{.*}}, %{{.*}} : tensor<64xf32>, tensor<64xf32>
  // CHECK-NEXT: }
  // CHECK-NEXT: %[[V:.*]] = aten.view(%[[K]]#0
  // CHECK-NEXT: %[[T:.*]] = aten.t(%[[V]])
  // CHECK-NEXT: %[[P:.*]] = aten.mm(%[[V]], %[[T]])
  // CHECK-NEXT: %[[Q:.*]] = aten.neg(%[[P]])
  // CHECK-NEXT: return %[[K]]#1, %[[Q]]
  func.func @"train/step"(%x: tensor<64xf32> {fsdp.input = "x"}) -> (tensor<64xf32> {fsdp.output = "z"}, tensor<8x8xf32> {fsdp.output = "p"}) {
    %a = aten.neg(%x) : (tensor<64xf32>) -> tensor<64xf32>
    %v = aten.view(%a, size = [8, 8]) : (tensor<64xf32>) -> tensor<8x8xf32>
    %t = aten.t(%v) : (tensor<8x8xf32>) -> tensor<8x8xf32, #aten.strides<1, 8>>
    %b = aten.mul.Tensor(%a, %x) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
    %p = aten.mm(%v, %t) : (tensor<8x8xf32>, tensor<8x8xf32, #aten.strides<1, 8>>) -> tensor<8x8xf32>
    %q = aten.neg(%p) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    return %b, %q : tensor<64xf32>, tensor<8x8xf32>
  }
}

// -----

// The product reads the first before the last can be computed.

module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>, fsdp.step = #fsdp.step<kernels = true>} {
  // CHECK-LABEL: @"train/step"
  // CHECK-NOT: fsdp.kernel
  func.func @"train/step"(%x: tensor<8x8xf32> {fsdp.input = "x"}) -> (tensor<8x8xf32> {fsdp.output = "z"}) {
    %a = aten.neg(%x) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %p = aten.mm(%a, %x) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %b = aten.mul.Tensor(%a, %p) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    return %b : tensor<8x8xf32>
  }
}

// -----

// What is freed between would be read too late: the kernel stands in front of it.

module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>, fsdp.step = #fsdp.step<kernels = true>} {
  // CHECK-LABEL: @"train/step"
  // CHECK: aten.cumsum
  // CHECK-NEXT: fsdp.kernel
  // CHECK: }
  // CHECK-NEXT: fsdp.free
  func.func @"train/step"(%x: tensor<64xf32> {fsdp.input = "x"}) -> (tensor<64xf32> {fsdp.output = "z"}) {
    %w = aten.cumsum(%x, dim = 0) : (tensor<64xf32>) -> tensor<64xf32>
    %a = aten.mul.Tensor(%x, %w) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
    fsdp.free %w : tensor<64xf32>
    %b = aten.neg(%a) : (tensor<64xf32>) -> tensor<64xf32>
    return %b : tensor<64xf32>
  }
}

// -----

// Where the last one needs what is made behind that, there is no place for both.

module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>, fsdp.step = #fsdp.step<kernels = true>} {
  // CHECK-LABEL: @"train/step"
  // CHECK-NOT: fsdp.kernel
  func.func @"train/step"(%x: tensor<64xf32> {fsdp.input = "x"}) -> (tensor<64xf32> {fsdp.output = "z"}) {
    %w = aten.cumsum(%x, dim = 0) : (tensor<64xf32>) -> tensor<64xf32>
    %a = aten.mul.Tensor(%x, %w) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
    fsdp.free %w : tensor<64xf32>
    %v = aten.cumsum(%x, dim = 0) : (tensor<64xf32>) -> tensor<64xf32>
    %b = aten.mul.Tensor(%a, %v) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
    return %b : tensor<64xf32>
  }
}

// -----

// Those that read the same are one, in front of who reads the first's result: as the
// gradients of a gate and its factor.

module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>, fsdp.step = #fsdp.step<kernels = true>} {
  // CHECK-LABEL: @"train/step"
  // CHECK-NEXT: %[[K:.*]]:2 = fsdp.kernel(%arg0, %arg1)
  // CHECK: }
  // CHECK-NEXT: %[[P:.*]] = aten.mm(%[[K]]#0
  // CHECK-NEXT: %[[Q:.*]] = aten.mm(%[[K]]#1
  // CHECK-NEXT: return
  func.func @"train/step"(%x: tensor<32x32xf32> {fsdp.input = "x"}, %y: tensor<32x32xf32> {fsdp.input = "y"}) -> (tensor<32x32xf32> {fsdp.output = "z"}, tensor<32x32xf32> {fsdp.output = "p"}) {
    %a = aten.mul.Tensor(%x, %y) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %p = aten.mm(%a, %x) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %b = aten.neg(%x) : (tensor<32x32xf32>) -> tensor<32x32xf32>
    %q = aten.mm(%b, %x) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    return %p, %q : tensor<32x32xf32>, tensor<32x32xf32>
  }
}

// -----

// What is read as it is and in another shape is one operand; in another order it is two.

module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>, fsdp.step = #fsdp.step<kernels = true>} {
  // CHECK-LABEL: @"train/step"
  // CHECK-NEXT: %[[K:.*]]:2 = fsdp.kernel(%arg0) in_place [true] : (tensor<32x32xf32>) -> (tensor<16xf32>, tensor<32x32xf32>) {
  // CHECK-NEXT: ^bb0(%[[X:.*]]: tensor<32x32xf32>):
  // CHECK-NEXT: %[[V:.*]] = aten.view(%[[X]], size = [16, 64])
  // CHECK-NEXT: aten.mul.Tensor(%[[V]], %[[V]])
  // CHECK:      aten.neg(%[[X]])
  // CHECK:      aten.t
  // CHECK:      fsdp.kernel(%{{.*}}, %arg1)
  func.func @"train/step"(%x: tensor<32x32xf32> {fsdp.input = "x"}, %y: tensor<32x32xf32> {fsdp.input = "y"}) -> (tensor<16xf32> {fsdp.output = "s"}, tensor<32x32xf32> {fsdp.output = "n"}, tensor<32xf32> {fsdp.output = "z"}) {
    %v = aten.view(%x, size = [16, 64]) : (tensor<32x32xf32>) -> tensor<16x64xf32>
    %a = aten.mul.Tensor(%v, %v) : (tensor<16x64xf32>, tensor<16x64xf32>) -> tensor<16x64xf32>
    %s = aten.sum.dim_IntList(%a, dim = [1]) : (tensor<16x64xf32>) -> tensor<16xf32>
    %n = aten.neg(%x) : (tensor<32x32xf32>) -> tensor<32x32xf32>
    %t = aten.t(%y) : (tensor<32x32xf32>) -> tensor<32x32xf32, #aten.strides<1, 32>>
    %b = aten.mul.Tensor(%t, %y) : (tensor<32x32xf32, #aten.strides<1, 32>>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %z = aten.sum.dim_IntList(%b, dim = [1]) : (tensor<32x32xf32>) -> tensor<32xf32>
    return %s, %n, %z : tensor<16xf32>, tensor<32x32xf32>, tensor<32xf32>
  }
}

// -----

// Backward reads the copy in f32 alone: it is made again of what is there anyway.

module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>, fsdp.step = #fsdp.step<kernels = true>} {
  // CHECK-LABEL: @"train/step"
  // CHECK-COUNT-50: aten.mm
  // CHECK: fsdp.kernel
  // CHECK-NEXT: ^bb0
  // CHECK-NEXT: aten._to_copy
  // CHECK-NEXT: aten.mul.Tensor
  // CHECK-NEXT: fsdp.yield
  func.func @"train/step"(%x: tensor<32x32xbf16> {fsdp.input = "x"}, %y: tensor<32x32xf32> {fsdp.input = "y"}) -> (tensor<32x32xf32> {fsdp.output = "z"}, tensor<32x32xf32> {fsdp.output = "p"}) {
    %a = aten._to_copy(%x, dtype = f32) : (tensor<32x32xbf16>) -> tensor<32x32xf32>
    %b = aten.cumsum(%a, dim = 0) : (tensor<32x32xf32>) -> tensor<32x32xf32>
    %p0 = aten.mm(%b, %y) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %p1 = aten.mm(%p0, %y) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %p2 = aten.mm(%p1, %y) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %p3 = aten.mm(%p2, %y) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %p4 = aten.mm(%p3, %y) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %p5 = aten.mm(%p4, %y) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %p6 = aten.mm(%p5, %y) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %p7 = aten.mm(%p6, %y) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %p8 = aten.mm(%p7, %y) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %p9 = aten.mm(%p8, %y) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %p10 = aten.mm(%p9, %y) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %p11 = aten.mm(%p10, %y) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %p12 = aten.mm(%p11, %y) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %p13 = aten.mm(%p12, %y) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %p14 = aten.mm(%p13, %y) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %p15 = aten.mm(%p14, %y) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %p16 = aten.mm(%p15, %y) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %p17 = aten.mm(%p16, %y) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %p18 = aten.mm(%p17, %y) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %p19 = aten.mm(%p18, %y) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %p20 = aten.mm(%p19, %y) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %p21 = aten.mm(%p20, %y) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %p22 = aten.mm(%p21, %y) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %p23 = aten.mm(%p22, %y) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %p24 = aten.mm(%p23, %y) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %p25 = aten.mm(%p24, %y) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %p26 = aten.mm(%p25, %y) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %p27 = aten.mm(%p26, %y) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %p28 = aten.mm(%p27, %y) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %p29 = aten.mm(%p28, %y) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %p30 = aten.mm(%p29, %y) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %p31 = aten.mm(%p30, %y) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %p32 = aten.mm(%p31, %y) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %p33 = aten.mm(%p32, %y) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %p34 = aten.mm(%p33, %y) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %p35 = aten.mm(%p34, %y) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %p36 = aten.mm(%p35, %y) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %p37 = aten.mm(%p36, %y) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %p38 = aten.mm(%p37, %y) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %p39 = aten.mm(%p38, %y) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %p40 = aten.mm(%p39, %y) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %p41 = aten.mm(%p40, %y) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %p42 = aten.mm(%p41, %y) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %p43 = aten.mm(%p42, %y) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %p44 = aten.mm(%p43, %y) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %p45 = aten.mm(%p44, %y) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %p46 = aten.mm(%p45, %y) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %p47 = aten.mm(%p46, %y) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %p48 = aten.mm(%p47, %y) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %p49 = aten.mm(%p48, %y) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %c = aten.mul.Tensor(%a, %p49) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    return %c, %p49 : tensor<32x32xf32>, tensor<32x32xf32>
  }
}

// -----

// Joined, both operands would live beside what the product makes, at the program's
// highest point.

module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>, fsdp.step = #fsdp.step<kernels = true>} {
  // CHECK-LABEL: @"train/step"
  // CHECK-NOT: fsdp.kernel
  func.func @"train/step"(%x: tensor<8x8xf32> {fsdp.input = "x"}) -> (tensor<8x8xf32> {fsdp.output = "z"}) {
    %w = aten.mm(%x, %x) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %v = aten.cumsum(%w, dim = 0) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %a = aten.mul.Tensor(%v, %w) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %p = aten.mm(%x, %x) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %q = aten.mm(%p, %x) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %b = aten.mul.Tensor(%a, %q) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    return %b : tensor<8x8xf32>
  }
}
