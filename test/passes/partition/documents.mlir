// Ranks have halves of sequences of 8, two of which lie one behind the other, in documents whose beginnings the kernel is told: the queries are parts of
// each row, keys and values are gathered, and their gradients scattered.
//
// RUN: fsdp-opt %s --fsdp-annotate='with={shards<world = 2>, parallel<cp = 2>}' --fsdp-snapshot-reference --fsdp-partition=axis=cp --fsdp-verify-placed=axis=cp -o %t
// RUN: FileCheck %s < %t
// RUN: fsdp-opt %t --fsdp-verify-equivalent -o /dev/null
// CHECK-LABEL: func.func @"train/step"
// CHECK:      fsdp.all_gather
// CHECK:      aten._flash_attention_forward(%{{.+}}, max_q = 4, max_k = 8, {{.*}}fsdp.queries = #fsdp.placed<shard in <blocks = 2> over #cp>{{.*}} : (tensor<8x1x4xbf16>, tensor<16x1x4xbf16>, tensor<16x1x4xbf16>, tensor<5xi32>, tensor<5xi32>) -> (tensor<8x1x4xbf16>, tensor<1x8xf32>,
// CHECK:      aten._flash_attention_backward({{.*}}max_q = 4, max_k = 8, {{.*}}fsdp.queries = #fsdp.placed<shard in <blocks = 2> over #cp>
// CHECK:      fsdp.reduce_scatter
//
// The plan has other beginnings for both ranks.
//
// RUN: fsdp-opt %s --fsdp-annotate='with={shards<world = 4>, parallel<cp = 2>}' --fsdp-pipeline -o - | FileCheck %s --check-prefix=PLANNED
// PLANNED:     fsdp.select_rows {{.*}} from [0, 1] over #cp
// PLANNED:     aten.sort(
// PLANNED:     aten._flash_attention_forward({{.*}} : (tensor<8x1x4xbf16>, tensor<16x1x4xbf16>, tensor<16x1x4xbf16>, tensor<7xi32>, tensor<7xi32>)
// PLANNED-NOT: fsdp.queries
//
// A window that reaches behind its queries is no sequence of some of them: each rank computes all.
//
// RUN: sed 's/is_causal = true/is_causal = false, window_size_left = 2, window_size_right = 1/; s/is_causal = false, window_size_left = 2, window_size_right = 1, return_debug_mask = false/is_causal = false, return_debug_mask = false, window_size_left = 2, window_size_right = 1/' %s | fsdp-opt - --fsdp-annotate='with={shards<world = 2>, parallel<cp = 2>}' --fsdp-snapshot-reference --fsdp-partition=axis=cp --fsdp-verify-placed=axis=cp -o - | FileCheck %s --check-prefix=BEHIND
// BEHIND:     aten._flash_attention_forward({{.*}}max_q = 8, max_k = 8
// BEHIND-NOT: fsdp.queries
//
// It does not go without saying.
//
// RUN: sed -E 's/, fsdp.queries = #fsdp.placed<shard in <blocks = 2> over #cp>//' %t | not fsdp-opt - --fsdp-verify-placed=axis=cp 2>&1 | FileCheck %s --check-prefix=UNSAID
// UNSAID: 'aten._flash_attention_forward' op expects fsdp.queries = #fsdp.placed<shard in <blocks = 2> over <"cp", 2>>, since ranks have parts of its queries
module {
  fsdp.module "" class "Model"
  fsdp.module "embed" class "Embedding"
  fsdp.state parameter @embed.weight : tensor<29x4xbf16>
  func.func @"train/step"(%w: tensor<29x4xbf16> {fsdp.state = @embed.weight}, %x: tensor<2x8xi64> {fsdp.input = "x"}, %b: tensor<5xi32> {fsdp.input = "b"})
      -> (tensor<bf16> {fsdp.output = "loss"}, tensor<29x4xbf16> {fsdp.gradient = @embed.weight}) attributes {fsdp.captured} {
    %e = aten.embedding(%w, %x) : (tensor<29x4xbf16>, tensor<2x8xi64>) -> tensor<2x8x4xbf16>
    %h = aten.view(%e, size = [16, 1, 4]) : (tensor<2x8x4xbf16>) -> tensor<16x1x4xbf16>
    %o:5 = aten._flash_attention_forward(%h, %h, %h, %b, %b, max_q = 8, max_k = 8, dropout_p = 0.0, is_causal = true, return_debug_mask = false)
        : (tensor<16x1x4xbf16>, tensor<16x1x4xbf16>, tensor<16x1x4xbf16>, tensor<5xi32>, tensor<5xi32>) -> (tensor<16x1x4xbf16>, tensor<1x16xf32>, tensor<2xui64>, tensor<ui64>, tensor<0xbf16>)
    %s = aten.mul.Tensor(%o#0, %o#0) : (tensor<16x1x4xbf16>, tensor<16x1x4xbf16>) -> tensor<16x1x4xbf16>
    %l = aten.sum(%s) : (tensor<16x1x4xbf16>) -> tensor<bf16>
    %go = aten.mul.Scalar(%o#0, other = 2.0) : (tensor<16x1x4xbf16>) -> tensor<16x1x4xbf16>
    %g:3 = aten._flash_attention_backward(%go, %h, %h, %h, %o#0, %o#1, %b, %b, %o#2, %o#3, max_q = 8, max_k = 8, dropout_p = 0.0, is_causal = true)
        : (tensor<16x1x4xbf16>, tensor<16x1x4xbf16>, tensor<16x1x4xbf16>, tensor<16x1x4xbf16>, tensor<16x1x4xbf16>, tensor<1x16xf32>, tensor<5xi32>, tensor<5xi32>, tensor<2xui64>, tensor<ui64>) -> (tensor<16x1x4xbf16>, tensor<16x1x4xbf16>, tensor<16x1x4xbf16>)
    %kv = aten.add.Tensor(%g#1, %g#2) : (tensor<16x1x4xbf16>, tensor<16x1x4xbf16>) -> tensor<16x1x4xbf16>
    %a = aten.add.Tensor(%g#0, %kv) : (tensor<16x1x4xbf16>, tensor<16x1x4xbf16>) -> tensor<16x1x4xbf16>
    %ge = aten.view(%a, size = [2, 8, 4]) : (tensor<16x1x4xbf16>) -> tensor<2x8x4xbf16>
    %gw = aten.embedding_dense_backward(%ge, %x, num_weights = 29, padding_idx = -1, scale_grad_by_freq = false) : (tensor<2x8x4xbf16>, tensor<2x8xi64>) -> tensor<29x4xbf16>
    return %l, %gw : tensor<bf16>, tensor<29x4xbf16>
  }
}
