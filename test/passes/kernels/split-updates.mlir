// RUN: fsdp-opt %s --fsdp-fuse-kernels --split-input-file | FileCheck %s

// What casts a gradient and squares it updates the parameter: no gradient is in
// memory in f32. What the step and the learning rate come to is computed once, in f64.

module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>, fsdp.step = #fsdp.step<kernels = true>} {
  fsdp.state parameter @w : tensor<64x64xf32>
  fsdp.state optimizer @"w/m" of @w : tensor<64x64xf32>
  fsdp.state optimizer @"w/v" of @w : tensor<64x64xf32>
  fsdp.state parameter @b : tensor<64xf32>
  fsdp.state optimizer @"b/m" of @b : tensor<64xf32>
  fsdp.state optimizer @"b/v" of @b : tensor<64xf32>
  fsdp.state step @step : tensor<f32>
  fsdp.state learning_rate @lr : tensor<f32>
  // CHECK-LABEL: @"train/step"
  // CHECK: %[[STEP:.*]] = aten.add.Scalar(%arg8,
  // CHECK-NEXT: %[[WIDE:.*]] = aten._to_copy(%[[STEP]], dtype = f64)
  // CHECK-NEXT: aten.pow.Scalar(%[[WIDE]], self = 9.000000e-01)
  // CHECK: aten.mm
  // CHECK: %[[K:.*]]:4 = fsdp.kernel(%{{.*}}, %arg0, %arg4, %arg5, %[[STEP]], %arg9,
  // CHECK-SAME: -> (tensor<f32>, tensor<64x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>)
  // CHECK: %[[G:.*]] = aten._to_copy
  // CHECK: aten.sum.dim_IntList
  // CHECK: fsdp.update adamw params(%{{.*}}) grads(%[[G]]) {{.*}} rates(%{{.*}}, %{{.*}}, %{{.*}}) betas
  // What is small is updated as ever.
  // CHECK: fsdp.update adamw params(%arg1)
  // CHECK-NOT: rates
  // CHECK: return
  func.func @"train/step"(%w: tensor<64x64xf32> {fsdp.state = @w}, %b: tensor<64xf32> {fsdp.state = @b},
      %x: tensor<64x64xbf16> {fsdp.input = "x"}, %bg: tensor<64xf32> {fsdp.input = "bg"},
      %m: tensor<64x64xf32> {fsdp.state = @"w/m"}, %v: tensor<64x64xf32> {fsdp.state = @"w/v"},
      %bm: tensor<64xf32> {fsdp.state = @"b/m"}, %bv: tensor<64xf32> {fsdp.state = @"b/v"},
      %step: tensor<f32> {fsdp.state = @step}, %lr: tensor<f32> {fsdp.state = @lr})
      -> (tensor<64x64xf32> {fsdp.state = @w}, tensor<64xf32> {fsdp.state = @b}, tensor<64x64xf32> {fsdp.state = @"w/m"}, tensor<64x64xf32> {fsdp.state = @"w/v"},
          tensor<64xf32> {fsdp.state = @"b/m"}, tensor<64xf32> {fsdp.state = @"b/v"}, tensor<f32> {fsdp.state = @step}, tensor<f32> {fsdp.output = "norm"}) {
    %p = aten.mm(%x, %x) : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xbf16>
    %g = aten._to_copy(%p, dtype = f32) : (tensor<64x64xbf16>) -> tensor<64x64xf32>
    %n = aten._foreach_norm.Scalar([%g]) : (tensor<64x64xf32>) -> tensor<f32>
    %s = aten.add.Scalar(%step, other = 1.0) : (tensor<f32>) -> tensor<f32>
    %u:6 = fsdp.update adamw params(%w, %b) grads(%g, %bg) exp_avgs(%m, %bm) exp_avg_sqs(%v, %bv) step %s lr %lr
        betas(9.0e-01, 9.9e-01) eps 1.0e-08 weight_decay 1.0e-02 : tensor<64x64xf32>, tensor<64xf32>
    return %u#0, %u#1, %u#2, %u#4, %u#3, %u#5, %s, %n : tensor<64x64xf32>, tensor<64xf32>, tensor<64x64xf32>, tensor<64x64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<f32>, tensor<f32>
  }
}

// -----

// A gradient that no kernel makes or reads: LibTorch's, of all parameters at once.

module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>, fsdp.step = #fsdp.step<kernels = true>} {
  fsdp.state parameter @w : tensor<64x64xf32>
  fsdp.state learning_rate @lr : tensor<f32>
  // CHECK-LABEL: @"train/step"
  // CHECK-NEXT: %{{.*}} = aten.mm
  // CHECK-NEXT: %{{.*}} = fsdp.update sgd params(%arg0)
  // CHECK-NOT: rates
  // CHECK: return
  func.func @"train/step"(%w: tensor<64x64xf32> {fsdp.state = @w}, %x: tensor<64x64xf32> {fsdp.input = "x"}, %lr: tensor<f32> {fsdp.state = @lr})
      -> (tensor<64x64xf32> {fsdp.state = @w}) {
    %g = aten.mm(%x, %x) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %u = fsdp.update sgd params(%w) grads(%g) momentum_buffers() lr %lr momentum 0.0 weight_decay 0.0 : tensor<64x64xf32>
    return %u : tensor<64x64xf32>
  }
}

// -----

// Somebody reads the old value after the kernel could have replaced it: the update
// stays behind, and is LibTorch's again, with what it went by.

module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>, fsdp.step = #fsdp.step<kernels = true>} {
  fsdp.state parameter @w : tensor<64x64xf32>
  fsdp.state learning_rate @lr : tensor<f32>
  // CHECK-LABEL: @"train/step"
  // CHECK: fsdp.kernel
  // CHECK-NOT: fsdp.update
  // CHECK: aten.mm(%{{.*}}, %arg0)
  // CHECK-NEXT: %{{.*}} = aten.mm
  // CHECK-NEXT: %{{.*}} = fsdp.update sgd params(%arg0)
  // CHECK-NOT: rates
  // CHECK: return
  func.func @"train/step"(%w: tensor<64x64xf32> {fsdp.state = @w}, %x: tensor<64x64xf32> {fsdp.input = "x"}, %lr: tensor<f32> {fsdp.state = @lr})
      -> (tensor<64x64xf32> {fsdp.state = @w}, tensor<64x64xf32> {fsdp.output = "y"}) {
    %a = aten.neg(%x) : (tensor<64x64xf32>) -> tensor<64x64xf32>
    %g = aten.exp(%a) : (tensor<64x64xf32>) -> tensor<64x64xf32>
    %y = aten.mm(%g, %w) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %z = aten.mm(%y, %g) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %u = fsdp.update sgd params(%w) grads(%g) momentum_buffers() lr %lr momentum 0.0 weight_decay 0.0 : tensor<64x64xf32>
    return %u, %z : tensor<64x64xf32>, tensor<64x64xf32>
  }
}
