// RUN: fsdp-opt %s --fsdp-lower-documents -o - | FileCheck %s

// Of two ranks each has the half of two rows of 8. Of the first rank's piece the ends are 4 and 12, of the second's 8 and 16; sorted among the beginnings
// they cut documents. Of queries the rows in front count, and what is in the piece.

// CHECK-LABEL: func.func @"train/step"
// CHECK-SAME:  %[[Q:[^:]+]]: tensor<8x4x8xbf16>, %[[K:[^:]+]]: tensor<16x2x8xbf16>, %[[B:[^:]+]]: tensor<7xi32>
// CHECK:      fsdp.constant dense<{{\[\[}}4, 12], [8, 16]]> : tensor<2x2xi32>
// CHECK:      %[[ENDS:.+]] = fsdp.select_rows {{.*}} dim 0 from [0, 1] over #cp : tensor<2x2xi32> -> tensor<1x2xi32>
// CHECK:      %[[ALL:.+]] = aten.cat([%[[B]], %{{.+}}]{{.*}} -> tensor<9xi32>
// CHECK:      %[[KEYS:.+]]:2 = aten.sort(%[[ALL]]
// CHECK:      %[[PLACE:.+]] = aten.remainder.Scalar(%[[KEYS]]#0, other = 8)
// CHECK:      %[[ROW:.+]] = aten.div.Scalar_mode(%[[KEYS]]#0, other = 8, rounding_mode = "floor")
// CHECK:      fsdp.constant dense<{{\[\[}}0], [4]]> : tensor<2x1xi32>
// CHECK:      aten.clamp({{.*}}min = 0, max = 4)
// CHECK:      aten.mul.Scalar(%[[ROW]], other = 4)
// CHECK:      %[[QUERIES:.+]] = aten.add.Tensor(
// CHECK-NEXT: aten._flash_attention_forward(%[[Q]], %[[K]], %[[K]], %[[QUERIES]], %[[KEYS]]#0, max_q = 4, max_k = 8, {{.*}}is_causal = true
// The second layer has the same.
// CHECK-NEXT: aten._flash_attention_forward(%{{.+}}, %[[K]], %[[K]], %[[QUERIES]], %[[KEYS]]#0, max_q = 4
// CHECK-NOT:  fsdp.queries

// Two pieces a rank are two calls. Queries that see all of their document have its keys, which nothing cuts; parts of gradients are added up in f32.

// CHECK-LABEL: func.func @"train/balanced"
// CHECK-NOT:  aten.sort
// CHECK:      aten._flash_attention_backward({{.*}}max_q = 4, max_k = 16, {{.*}}is_causal = false) : (tensor<4x4x8xbf16>,
// CHECK:      aten._flash_attention_backward({{.*}}max_q = 4, max_k = 16, {{.*}}is_causal = false) : (tensor<4x4x8xbf16>,
// CHECK:      aten.stack(
// CHECK:      aten.add.Tensor({{.*}} : (tensor<16x2x8xf32>, tensor<16x2x8xf32>)

// What no rank has parts of stays.

// CHECK-LABEL: func.func @"train/whole"
// CHECK-NEXT: aten._flash_attention_forward({{.*}}max_q = 8, max_k = 8
module attributes {fsdp.device = "cuda:sm_90"} {
  func.func @"train/step"(%q: tensor<8x4x8xbf16>, %k: tensor<16x2x8xbf16>, %b: tensor<7xi32>) -> tensor<8x4x8xbf16> {
    %o:5 = aten._flash_attention_forward(%q, %k, %k, %b, %b, max_q = 4, max_k = 8, dropout_p = 0.0, is_causal = true, return_debug_mask = false) {fsdp.queries = #fsdp.placed<shard in <blocks = 2> over <"cp", 2>>}
        : (tensor<8x4x8xbf16>, tensor<16x2x8xbf16>, tensor<16x2x8xbf16>, tensor<7xi32>, tensor<7xi32>) -> (tensor<8x4x8xbf16>, tensor<4x8xf32>, tensor<2xui64>, tensor<ui64>, tensor<0xbf16>)
    %p:5 = aten._flash_attention_forward(%o#0, %k, %k, %b, %b, max_q = 4, max_k = 8, dropout_p = 0.0, is_causal = true, return_debug_mask = false) {fsdp.queries = #fsdp.placed<shard in <blocks = 2> over <"cp", 2>>}
        : (tensor<8x4x8xbf16>, tensor<16x2x8xbf16>, tensor<16x2x8xbf16>, tensor<7xi32>, tensor<7xi32>) -> (tensor<8x4x8xbf16>, tensor<4x8xf32>, tensor<2xui64>, tensor<ui64>, tensor<0xbf16>)
    return %p#0 : tensor<8x4x8xbf16>
  }
  func.func @"train/balanced"(%g: tensor<8x4x8xbf16>, %q: tensor<8x4x8xbf16>, %k: tensor<16x2x8xbf16>, %o: tensor<8x4x8xbf16>, %s: tensor<4x8xf32>, %b: tensor<7xi32>, %r: tensor<2xui64>, %u: tensor<ui64>)
      -> (tensor<8x4x8xbf16>, tensor<16x2x8xbf16>, tensor<16x2x8xbf16>) {
    %d:3 = aten._flash_attention_backward(%g, %q, %k, %k, %o, %s, %b, %b, %r, %u, max_q = 8, max_k = 16, dropout_p = 0.0, is_causal = false) {fsdp.queries = #fsdp.placed<shard in <balanced = true> over <"cp", 2>>}
        : (tensor<8x4x8xbf16>, tensor<8x4x8xbf16>, tensor<16x2x8xbf16>, tensor<16x2x8xbf16>, tensor<8x4x8xbf16>, tensor<4x8xf32>, tensor<7xi32>, tensor<7xi32>, tensor<2xui64>, tensor<ui64>) -> (tensor<8x4x8xbf16>, tensor<16x2x8xbf16>, tensor<16x2x8xbf16>)
    return %d#0, %d#1, %d#2 : tensor<8x4x8xbf16>, tensor<16x2x8xbf16>, tensor<16x2x8xbf16>
  }
  func.func @"train/whole"(%q: tensor<16x4x8xbf16>, %k: tensor<16x2x8xbf16>, %b: tensor<7xi32>) -> tensor<16x4x8xbf16> {
    %o:5 = aten._flash_attention_forward(%q, %k, %k, %b, %b, max_q = 8, max_k = 8, dropout_p = 0.0, is_causal = true, return_debug_mask = false)
        : (tensor<16x4x8xbf16>, tensor<16x2x8xbf16>, tensor<16x2x8xbf16>, tensor<7xi32>, tensor<7xi32>) -> (tensor<16x4x8xbf16>, tensor<4x16xf32>, tensor<2xui64>, tensor<ui64>, tensor<0xbf16>)
    return %o#0 : tensor<16x4x8xbf16>
  }
}
