// RUN: fsdp-opt %s --fsdp-lower-windows -o - | FileCheck %s
// RUN: sed 's/"cuda:sm_90"/"cpu"/' %s | fsdp-opt - --fsdp-lower-windows -o - | FileCheck %s --check-prefix=CPU

// Of two ranks each has the half of a sequence of 16. Ends of keys and values are passed on while a rank computes with its own; what both give the first
// queries is weighed by the sums of their scores, and nothing came for the first rank.

// CHECK-LABEL: func.func @"train/step"
// CHECK-SAME:    %[[Q:[^:]+]]: tensor<1x8x4x8xbf16>, %[[K:[^:]+]]: tensor<1x8x2x8xbf16>, %[[V:[^:]+]]: tensor<1x8x2x8xbf16>
// CHECK:      %[[KE:.+]] = aten.slice.Tensor(%[[K]], dim = 1, start = 5, end = 8)
// CHECK:      %[[VE:.+]] = aten.slice.Tensor(%[[V]], dim = 1, start = 5, end = 8)
// CHECK:      %[[PASS:.+]] = fsdp.start rotate "cp"(%[[KE]], %[[VE]]) over #cp for step on replicate : tensor<1x3x2x8xbf16>, tensor<1x3x2x8xbf16>
// CHECK-NEXT: %[[OWN:.+]]:5 = aten._flash_attention_forward(%[[Q]], %[[K]], %[[V]], max_q = 8, max_k = 8, {{.*}}window_size_left = 3, window_size_right = 0)
// CHECK:      %[[CAME:.+]], %[[VALUES:.+]] = fsdp.wait %[[PASS]]
// CHECK:      %[[FIRST:.+]] = aten.slice.Tensor(%[[Q]], dim = 1, start = 0, end = 3)
// CHECK:      aten._flash_attention_forward(%[[FIRST]], %[[CAME]], %[[VALUES]], max_q = 3, max_k = 3, {{.*}}window_size_left = 0)
// CHECK:      fsdp.constant dense<[0xFF800000, 0.000000e+00]>
// CHECK:      aten.logaddexp
// CHECK-NOT:  fsdp.ring

// Gradients of what came go back while a rank computes those of its own.

// CHECK:      fsdp.start rotate "cp"
// CHECK:      fsdp.constant dense<[1.000000e+30, 0.000000e+00]>
// CHECK:      %[[G:.+]]:3 = aten._flash_attention_backward({{.*}}max_q = 3, max_k = 3,
// CHECK:      %[[BACK:.+]] = fsdp.start rotate "cp"({{.*}}) over #cp for step on replicate : tensor<1x3x2x8xbf16>, tensor<1x3x2x8xbf16>
// CHECK:      aten._flash_attention_backward({{.*}}max_q = 8, max_k = 8,
// CHECK:      fsdp.wait %[[BACK]]
// CHECK-NOT:  fsdp.ring

// With all keys the piece in front is taken of these.

// CHECK-LABEL: func.func @"all/step"
// CHECK-NOT:  fsdp.start
// CHECK:      fsdp.select_rows %{{.+}} dim 1 from [0, 8] over #cp
// CHECK:      fsdp.select_rows %{{.+}} dim 1 from [5, 5] over #cp
// CHECK-NOT:  fsdp.queries

// Where all is a rank's own, GPUs' kernel is told as it was.

// CHECK-LABEL: func.func @"whole/step"
// CHECK-NEXT: aten._flash_attention_forward({{.*}}window_size_left = 3, window_size_right = 0)
// CHECK-NEXT: return

// CPUs get masks of blocks, and as many heads of keys as of queries.

// CPU-NOT:    aten._flash_attention_
// CPU:        aten.full(size = [8, 8], fill_value = 0xFFF0000000000000
// CPU:        aten.tril({{.*}}diagonal = -4)
// CPU:        aten.triu({{.*}}diagonal = 1)
// CPU:        aten._scaled_dot_product_flash_attention_for_cpu({{.*}}tensor<1x4x8x8xbf16>
// CPU-NOT:    aten._flash_attention_
#cp = #fsdp.group<"cp", 2>
#part = #fsdp.placed<shard dim 1 over #cp>
module attributes {fsdp.device = "cuda:sm_90"} {
  func.func @"train/step"(%q: tensor<1x8x4x8xbf16>, %k: tensor<1x8x2x8xbf16>, %v: tensor<1x8x2x8xbf16>, %g: tensor<1x8x4x8xbf16>)
      -> (tensor<1x8x4x8xbf16>, tensor<1x8x4x8xbf16>, tensor<1x8x2x8xbf16>, tensor<1x8x2x8xbf16>) {
    %o:5 = aten._flash_attention_forward(%q, %k, %v, max_q = 8, max_k = 8, dropout_p = 0.0, is_causal = false, return_debug_mask = false, window_size_left = 3, window_size_right = 0) {fsdp.ring = #part}
        : (tensor<1x8x4x8xbf16>, tensor<1x8x2x8xbf16>, tensor<1x8x2x8xbf16>) -> (tensor<1x8x4x8xbf16>, tensor<1x4x8xf32>, tensor<2xui64>, tensor<ui64>, tensor<0xbf16>)
    %d:3 = aten._flash_attention_backward(%g, %q, %k, %v, %o#0, %o#1, none, none, %o#2, %o#3, max_q = 8, max_k = 8, dropout_p = 0.0, is_causal = false, window_size_left = 3, window_size_right = 0) {fsdp.ring = #part}
        : (tensor<1x8x4x8xbf16>, tensor<1x8x4x8xbf16>, tensor<1x8x2x8xbf16>, tensor<1x8x2x8xbf16>, tensor<1x8x4x8xbf16>, tensor<1x4x8xf32>, tensor<2xui64>, tensor<ui64>) -> (tensor<1x8x4x8xbf16>, tensor<1x8x2x8xbf16>, tensor<1x8x2x8xbf16>)
    return %o#0, %d#0, %d#1, %d#2 : tensor<1x8x4x8xbf16>, tensor<1x8x4x8xbf16>, tensor<1x8x2x8xbf16>, tensor<1x8x2x8xbf16>
  }
  func.func @"all/step"(%q: tensor<1x8x4x8xbf16>, %k: tensor<1x16x2x8xbf16>, %v: tensor<1x16x2x8xbf16>) -> tensor<1x8x4x8xbf16> {
    %o:5 = aten._flash_attention_forward(%q, %k, %v, max_q = 8, max_k = 16, dropout_p = 0.0, is_causal = false, return_debug_mask = false, window_size_left = 3, window_size_right = 0) {fsdp.queries = #part}
        : (tensor<1x8x4x8xbf16>, tensor<1x16x2x8xbf16>, tensor<1x16x2x8xbf16>) -> (tensor<1x8x4x8xbf16>, tensor<1x4x8xf32>, tensor<2xui64>, tensor<ui64>, tensor<0xbf16>)
    return %o#0 : tensor<1x8x4x8xbf16>
  }
  func.func @"whole/step"(%q: tensor<1x8x4x8xbf16>, %k: tensor<1x8x2x8xbf16>, %v: tensor<1x8x2x8xbf16>) -> tensor<1x8x4x8xbf16> {
    %o:5 = aten._flash_attention_forward(%q, %k, %v, max_q = 8, max_k = 8, dropout_p = 0.0, is_causal = false, return_debug_mask = false, window_size_left = 3, window_size_right = 0)
        : (tensor<1x8x4x8xbf16>, tensor<1x8x2x8xbf16>, tensor<1x8x2x8xbf16>) -> (tensor<1x8x4x8xbf16>, tensor<1x4x8xf32>, tensor<2xui64>, tensor<ui64>, tensor<0xbf16>)
    return %o#0 : tensor<1x8x4x8xbf16>
  }
}
