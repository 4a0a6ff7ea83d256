// RUN: fsdp-opt %s --fsdp-fuse-kernels --split-input-file | FileCheck %s

// Of norms that only the norm of all of them reads, the sums of rows are summed at once:
// one kernel for each gradient, and none for each norm.

module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>, fsdp.step = #fsdp.step<kernels = true>} {
  // CHECK-LABEL: @"train/step"
  // CHECK:      fsdp.kernel({{.*}} (tensor<32x8192xf32>) -> tensor<32xf32>
  // CHECK-NOT:  aten.sqrt
  // CHECK-NOT:  aten.stack
  // CHECK:      aten.cat([{{.*}}]) : (tensor<32xf32>, tensor<1xf32>) -> tensor<33xf32>
  // CHECK:      aten.sum.dim_IntList
  // CHECK:      aten.sqrt
  // CHECK-NOT:  aten.sqrt
  // CHECK:      return
  func.func @"train/step"(%x: tensor<64x4096xf32> {fsdp.input = "x"}, %y: tensor<64xf32> {fsdp.input = "y"}) -> (tensor<f32> {fsdp.output = "z"}, tensor<f32> {fsdp.output = "n"}) {
    %l = aten.cumsum(%x, dim = 0) : (tensor<64x4096xf32>) -> tensor<64x4096xf32>
    %z = aten.sum(%l) : (tensor<64x4096xf32>) -> tensor<f32>
    %n:2 = aten._foreach_norm.Scalar([%x, %y]) : (tensor<64x4096xf32>, tensor<64xf32>) -> (tensor<f32>, tensor<f32>)
    %s = aten.stack([%n#0, %n#1]) : (tensor<f32>, tensor<f32>) -> tensor<2xf32>
    %m = aten.mul.Tensor(%s, %s) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    %t = aten.sum(%m) : (tensor<2xf32>) -> tensor<f32>
    %r = aten.sqrt(%t) : (tensor<f32>) -> tensor<f32>
    return %z, %r : tensor<f32>, tensor<f32>
  }
}

// -----

// Sums of more rows than are summed at once are rows again, with zeros at the end.

module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>, fsdp.step = #fsdp.step<kernels = true>} {
  // CHECK-LABEL: @"train/step"
  // CHECK: aten.cat([{{.*}}]) : (tensor<8192xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<8194xf32>
  // CHECK: tensor<2x4097xf32>
  func.func @"train/step"(%x: tensor<8192x8191xf32> {fsdp.input = "x"}, %y: tensor<64xf32> {fsdp.input = "y"}) -> (tensor<f32> {fsdp.output = "z"}, tensor<f32> {fsdp.output = "n"}) {
    %l = aten.cumsum(%x, dim = 0) : (tensor<8192x8191xf32>) -> tensor<8192x8191xf32>
    %z = aten.sum(%l) : (tensor<8192x8191xf32>) -> tensor<f32>
    %n:2 = aten._foreach_norm.Scalar([%x, %y]) : (tensor<8192x8191xf32>, tensor<64xf32>) -> (tensor<f32>, tensor<f32>)
    %s = aten.stack([%n#0, %n#1]) : (tensor<f32>, tensor<f32>) -> tensor<2xf32>
    %m = aten.mul.Tensor(%s, %s) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    %t = aten.sum(%m) : (tensor<2xf32>) -> tensor<f32>
    return %z, %t : tensor<f32>, tensor<f32>
  }
}

// -----

// Who asks for a norm itself has it.

module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>, fsdp.step = #fsdp.step<kernels = true>} {
  // CHECK-LABEL: @"train/step"
  // CHECK-NOT: aten.cat
  // CHECK: return
  func.func @"train/step"(%x: tensor<64x4096xf32> {fsdp.input = "x"}, %y: tensor<64xf32> {fsdp.input = "y"}) -> (tensor<f32> {fsdp.output = "z"}, tensor<f32> {fsdp.output = "n"}, tensor<f32> {fsdp.output = "x/norm"}) {
    %l = aten.cumsum(%x, dim = 0) : (tensor<64x4096xf32>) -> tensor<64x4096xf32>
    %z = aten.sum(%l) : (tensor<64x4096xf32>) -> tensor<f32>
    %n:2 = aten._foreach_norm.Scalar([%x, %y]) : (tensor<64x4096xf32>, tensor<64xf32>) -> (tensor<f32>, tensor<f32>)
    %s = aten.stack([%n#0, %n#1]) : (tensor<f32>, tensor<f32>) -> tensor<2xf32>
    %m = aten.mul.Tensor(%s, %s) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    %t = aten.sum(%m) : (tensor<2xf32>) -> tensor<f32>
    return %z, %t, %n#0 : tensor<f32>, tensor<f32>, tensor<f32>
  }
}

// -----

// Where little else is in memory sums of rows that wait would be the program's highest
// point: norms are what waits.

module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>, fsdp.step = #fsdp.step<kernels = true>} {
  // CHECK-LABEL: @"train/step"
  // CHECK:     fsdp.kernel
  // CHECK-NOT: aten.cat
  // CHECK:     return
  func.func @"train/step"(%x: tensor<8192x8192xf32> {fsdp.input = "x"}, %y: tensor<8192x8192xf32> {fsdp.input = "y"}, %w: tensor<10240xf32> {fsdp.input = "w"}) -> (tensor<f32> {fsdp.output = "z"}, tensor<f32> {fsdp.output = "n"}) {
    %l = aten.cumsum(%w, dim = 0) : (tensor<10240xf32>) -> tensor<10240xf32>
    %z = aten.sum(%l) : (tensor<10240xf32>) -> tensor<f32>
    %n:2 = aten._foreach_norm.Scalar([%x, %y]) : (tensor<8192x8192xf32>, tensor<8192x8192xf32>) -> (tensor<f32>, tensor<f32>)
    %s = aten.stack([%n#0, %n#1]) : (tensor<f32>, tensor<f32>) -> tensor<2xf32>
    %m = aten.mul.Tensor(%s, %s) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    %t = aten.sum(%m) : (tensor<2xf32>) -> tensor<f32>
    return %z, %t : tensor<f32>, tensor<f32>
  }
}
