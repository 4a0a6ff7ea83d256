// RUN: fsdp-opt %s --fsdp-fuse-kernels --split-input-file | FileCheck %s

// A loss of logits in bf16: neither these in f32 nor their softmax are in memory.
// Its number for each row is looked up by LibTorch, which refuses targets that are no
// class; backward's kernel computes the softmax again.

module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>, fsdp.step = #fsdp.step<kernels = true>} {
  // CHECK-LABEL: @"train/step"
  // CHECK: %[[X:.*]] = aten.mm
  // CHECK-NOT: tensor<128x2000xf32> {
  // CHECK: fsdp.kernel(%[[X]], %{{.*}}) in_place [{{.*}}] : (tensor<128x2000xbf16>, tensor<128xi64>) -> tensor<128xf32> {
  // CHECK: aten._to_copy
  // CHECK: aten._log_softmax
  // CHECK: aten.nll_loss_forward({{.*}}, reduction = 0, ignore_index = -100)
  // CHECK: aten.gather(%{{.*}}, dim = 1) : (tensor<128x2000xf32, #aten.strides<1, 0>>, tensor<128x1xi64>) -> tensor<128x1xf32>
  // CHECK: fsdp.kernel(%[[X]]
  // CHECK-SAME: -> tensor<128x2000xbf16> {
  // CHECK: aten._log_softmax
  // CHECK: aten.nll_loss_backward
  // CHECK: aten._log_softmax_backward_data
  // CHECK: return
  func.func @"train/step"(%h: tensor<128x64xbf16> {fsdp.input = "h"}, %w: tensor<64x2000xbf16> {fsdp.input = "w"}, %t: tensor<128xi64> {fsdp.input = "t"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<128x2000xbf16> {fsdp.output = "g"}) {
    %x = aten.mm(%h, %w) : (tensor<128x64xbf16>, tensor<64x2000xbf16>) -> tensor<128x2000xbf16>
    %f = aten._to_copy(%x, dtype = f32) : (tensor<128x2000xbf16>) -> tensor<128x2000xf32>
    %s = aten._log_softmax(%f, dim = 1, half_to_float = false) : (tensor<128x2000xf32>) -> tensor<128x2000xf32>
    %l:2 = aten.nll_loss_forward(%s, %t, reduction = 1, ignore_index = -100) : (tensor<128x2000xf32>, tensor<128xi64>) -> (tensor<f32>, tensor<f32>)
    %o = aten.ones_like(%l#0) : (tensor<f32>) -> tensor<f32>
    %b = aten.nll_loss_backward(%o, %s, %t, none, %l#1, reduction = 1, ignore_index = -100) : (tensor<f32>, tensor<128x2000xf32>, tensor<128xi64>, tensor<f32>) -> tensor<128x2000xf32>
    %d = aten._log_softmax_backward_data(%b, %s, dim = 1, input_dtype = f32) : (tensor<128x2000xf32>, tensor<128x2000xf32>) -> tensor<128x2000xf32>
    %g = aten._to_copy(%d, dtype = bf16) : (tensor<128x2000xf32>) -> tensor<128x2000xbf16>
    return %l#0, %g : tensor<f32>, tensor<128x2000xbf16>
  }
}

// -----

// Losses by class, and those of f32's own softmax alone, are as they were.

module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>, fsdp.step = #fsdp.step<kernels = true>} {
  // CHECK-LABEL: @"train/step"
  // CHECK: aten.nll_loss_forward(%{{.*}}, reduction = 1, ignore_index = -100)
  // CHECK-NOT: aten.gather
  // CHECK: return
  func.func @"train/step"(%s: tensor<128x2000xf32> {fsdp.input = "s"}, %t: tensor<128xi64> {fsdp.input = "t"}) -> (tensor<f32> {fsdp.output = "loss"}) {
    %l:2 = aten.nll_loss_forward(%s, %t, reduction = 1, ignore_index = -100) : (tensor<128x2000xf32>, tensor<128xi64>) -> (tensor<f32>, tensor<f32>)
    return %l#0 : tensor<f32>
  }
}
