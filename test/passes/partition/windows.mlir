// Ranks have halves of a sequence of 8. Of a window of 3 tokens in front of each, neighbours have the keys: nothing is gathered, and no pieces are balanced.
//
// RUN: fsdp-opt %s --fsdp-annotate='with={shards<world = 2>, parallel<cp = 2>}' --fsdp-snapshot-reference --fsdp-partition=axis=cp --fsdp-verify-placed=axis=cp -o %t
// RUN: FileCheck %s < %t
// RUN: fsdp-opt %t --fsdp-verify-equivalent -o /dev/null
// CHECK-LABEL: func.func @"train/step"
// CHECK-NOT:  fsdp.all_gather
// CHECK:      aten._flash_attention_forward(%[[H:.+]], %[[H]], %[[H]], max_q = 4, max_k = 4, {{.*}}window_size_left = 3, window_size_right = 0) {{.*}}fsdp.ring = #fsdp.placed<shard dim 1 over #cp>
// CHECK:      aten._flash_attention_backward({{.*}}max_q = 4, max_k = 4, {{.*}}fsdp.ring = #fsdp.placed<shard dim 1 over #cp>
// CHECK-NOT:  fsdp.reduce_scatter
//
// A window longer than a part gathers; so does one that reaches both ways, with its queries.
//
// RUN: sed 's/window_size_left = 3/window_size_left = 5/' %s | fsdp-opt - --fsdp-annotate='with={shards<world = 2>, parallel<cp = 2>}' --fsdp-snapshot-reference --fsdp-partition=axis=cp --fsdp-verify-placed=axis=cp -o %t.long
// RUN: FileCheck %s --check-prefix=LONG < %t.long
// RUN: fsdp-opt %t.long --fsdp-verify-equivalent -o /dev/null
// LONG-LABEL: func.func @"train/step"
// LONG:      fsdp.all_gather
// LONG:      aten._flash_attention_forward({{.*}}max_q = 4, max_k = 8, {{.*}}fsdp.queries = #fsdp.placed<shard dim 1 over #cp>
// LONG:      fsdp.reduce_scatter
// RUN: sed 's/window_size_right = 0/window_size_right = 1/' %s | fsdp-opt - --fsdp-annotate='with={shards<world = 2>, parallel<cp = 2>}' --fsdp-snapshot-reference --fsdp-partition=axis=cp --fsdp-verify-placed=axis=cp -o - | FileCheck %s --check-prefix=BOTH
// BOTH:      aten._flash_attention_forward({{.*}}max_q = 8, max_k = 8
// BOTH-NOT:  fsdp.ring
//
// Neither goes without saying.
//
// RUN: sed -E 's/, fsdp.ring = #fsdp.placed<shard dim 1 over #cp>//' %t | not fsdp-opt - --fsdp-verify-placed=axis=cp 2>&1 | FileCheck %s --check-prefix=UNSAID
// UNSAID: 'aten._flash_attention_forward' op expects fsdp.ring = #fsdp.placed<shard dim 1 over <"cp", 2>>, since ranks have parts of its keys
// RUN: sed -E 's/, fsdp.queries = #fsdp.placed<shard dim 1 over #cp>//' %t.long | not fsdp-opt - --fsdp-verify-placed=axis=cp 2>&1 | FileCheck %s --check-prefix=ALL
// ALL: 'aten._flash_attention_forward' op expects fsdp.queries = #fsdp.placed<shard dim 1 over <"cp", 2>>, since ranks have parts of its queries
module {
  fsdp.module "" class "Model"
  fsdp.module "embed" class "Embedding"
  fsdp.state parameter @embed.weight : tensor<29x4xf32>
  func.func @"train/step"(%w: tensor<29x4xf32> {fsdp.state = @embed.weight}, %x: tensor<2x8xi64> {fsdp.input = "x"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<29x4xf32> {fsdp.gradient = @embed.weight}) attributes {fsdp.captured} {
    %e = aten.embedding(%w, %x) : (tensor<29x4xf32>, tensor<2x8xi64>) -> tensor<2x8x4xf32>
    %h = aten.unsqueeze(%e, dim = 2) : (tensor<2x8x4xf32>) -> tensor<2x8x1x4xf32>
    %o:5 = aten._flash_attention_forward(%h, %h, %h, max_q = 8, max_k = 8, dropout_p = 0.0, is_causal = false, return_debug_mask = false, window_size_left = 3, window_size_right = 0)
        : (tensor<2x8x1x4xf32>, tensor<2x8x1x4xf32>, tensor<2x8x1x4xf32>) -> (tensor<2x8x1x4xf32>, tensor<2x1x8xf32>, tensor<2xui64>, tensor<ui64>, tensor<0xf32>)
    %s = aten.mul.Tensor(%o#0, %o#0) : (tensor<2x8x1x4xf32>, tensor<2x8x1x4xf32>) -> tensor<2x8x1x4xf32>
    %l = aten.sum(%s) : (tensor<2x8x1x4xf32>) -> tensor<f32>
    %go = aten.mul.Scalar(%o#0, other = 2.0) : (tensor<2x8x1x4xf32>) -> tensor<2x8x1x4xf32>
    %g:3 = aten._flash_attention_backward(%go, %h, %h, %h, %o#0, %o#1, none, none, %o#2, %o#3, max_q = 8, max_k = 8, dropout_p = 0.0, is_causal = false, window_size_left = 3, window_size_right = 0)
        : (tensor<2x8x1x4xf32>, tensor<2x8x1x4xf32>, tensor<2x8x1x4xf32>, tensor<2x8x1x4xf32>, tensor<2x8x1x4xf32>, tensor<2x1x8xf32>, tensor<2xui64>, tensor<ui64>) -> (tensor<2x8x1x4xf32>, tensor<2x8x1x4xf32>, tensor<2x8x1x4xf32>)
    %kv = aten.add.Tensor(%g#1, %g#2) : (tensor<2x8x1x4xf32>, tensor<2x8x1x4xf32>) -> tensor<2x8x1x4xf32>
    %a = aten.add.Tensor(%g#0, %kv) : (tensor<2x8x1x4xf32>, tensor<2x8x1x4xf32>) -> tensor<2x8x1x4xf32>
    %ge = aten.squeeze.dim(%a, dim = 2) : (tensor<2x8x1x4xf32>) -> tensor<2x8x4xf32>
    %gw = aten.embedding_dense_backward(%ge, %x, num_weights = 29, padding_idx = -1, scale_grad_by_freq = false) : (tensor<2x8x4xf32>, tensor<2x8xi64>) -> tensor<29x4xf32>
    return %l, %gw : tensor<f32>, tensor<29x4xf32>
  }
}
