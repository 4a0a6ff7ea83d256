// RUN: awk '/[/] FILL/ {for (i = 0; i < 60; ++i) print "%%f" i " = aten.cumsum(%%y, dim = 0) : (tensor<4xf32>) -> tensor<4xf32>"; next} 1' %s | fsdp-opt - --fsdp-fuse-kernels | FileCheck %s

// An update far behind the gradient, which is cast for it once more, is one kernel with
// the gradient's norm: it is read once, in bf16. That the parameter was cast before, in
// a kernel of its own, is no hindrance.

module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>, fsdp.step = #fsdp.step<kernels = true>} {
  fsdp.state parameter @w : tensor<64x64xf32>
  fsdp.state optimizer @"w/m" of @w : tensor<64x64xf32>
  fsdp.state optimizer @"w/v" of @w : tensor<64x64xf32>
  fsdp.state step @step : tensor<f32>
  fsdp.state learning_rate @lr : tensor<f32>
  // CHECK-LABEL: @"train/step"
  // CHECK: %[[P:.*]] = aten.mm(
  // CHECK: fsdp.kernel(%[[P]], %arg0, %arg2, %arg3,
  // CHECK: aten._to_copy
  // CHECK: aten.sum.dim_IntList
  // CHECK: fsdp.update adamw
  // CHECK-NOT: fsdp.update
  // CHECK: return
  func.func @"train/step"(%w: tensor<64x64xf32> {fsdp.state = @w}, %y: tensor<4xf32> {fsdp.input = "y"},
      %m: tensor<64x64xf32> {fsdp.state = @"w/m"}, %v: tensor<64x64xf32> {fsdp.state = @"w/v"},
      %step: tensor<f32> {fsdp.state = @step}, %lr: tensor<f32> {fsdp.state = @lr})
      -> (tensor<64x64xf32> {fsdp.state = @w}, tensor<64x64xf32> {fsdp.state = @"w/m"}, tensor<64x64xf32> {fsdp.state = @"w/v"},
          tensor<f32> {fsdp.state = @step}, tensor<f32> {fsdp.output = "norm"}) {
    %s = aten.add.Scalar(%step, other = 1.0) : (tensor<f32>) -> tensor<f32>
    %x = aten._to_copy(%w, dtype = bf16) : (tensor<64x64xf32>) -> tensor<64x64xbf16>
    %p = aten.mm(%x, %x) : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xbf16>
    %g = aten._to_copy(%p, dtype = f32) : (tensor<64x64xbf16>) -> tensor<64x64xf32>
    %n = aten._foreach_norm.Scalar([%g]) : (tensor<64x64xf32>) -> tensor<f32>
    // FILL
    %u:3 = fsdp.update adamw params(%w) grads(%g) exp_avgs(%m) exp_avg_sqs(%v) step %s lr %lr
        betas(9.0e-01, 9.9e-01) eps 1.0e-08 weight_decay 1.0e-02 : tensor<64x64xf32>
    return %u#0, %u#1, %u#2, %s, %n : tensor<64x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>, tensor<f32>, tensor<f32>
  }
}
