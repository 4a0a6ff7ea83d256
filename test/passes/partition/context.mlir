// Two ranks have parts of the sequences of one batch: the tokens are cut, two pieces a rank, and all that is computed of them follows. Attention gathers
// keys and values, once more in backward, and scatters their gradients. The gradient of the embedding leaves as a summand.
//
// RUN: fsdp-opt %s --fsdp-annotate='with={shards<world = 2>, parallel<cp = 2>}' --fsdp-snapshot-reference --fsdp-partition=axis=cp --fsdp-verify-placed=axis=cp -o %t
// RUN: FileCheck %s < %t
//
// The program is the one that was captured, and can be planned.
//
// RUN: fsdp-opt %t --fsdp-verify-equivalent -o /dev/null
// RUN: fsdp-opt %s --fsdp-annotate='with={shards<world = 4>, parallel<cp = 2>}' --fsdp-pipeline -o - | FileCheck %s --check-prefix=PLANNED
//
// One rank a batch cuts nothing.
//
// RUN: fsdp-opt %s --fsdp-annotate='with={shards<world = 2>, parallel<tp = 2>}' --fsdp-snapshot-reference --fsdp-partition=axis=cp -o - | FileCheck %s --check-prefix=ALONE
// ALONE-NOT: fsdp.placed
//
// Pieces that are in another order, a gradient that leaves whole.
//
// RUN: sed -E 's/(fsdp.all_gather .* dim 2) in <balanced = true>/\1/' %t | not fsdp-opt - --fsdp-verify-placed=axis=cp 2>&1 | FileCheck %s --check-prefix=PARTS
// PARTS: 'fsdp.all_gather' op expects parts of #fsdp.parts<balanced = true>, found
// RUN: sed -E 's/(return %[0-9]+, )%[^ ]+/\1%arg0/' %t | not fsdp-opt - --fsdp-verify-placed=axis=cp 2>&1 | FileCheck %s --check-prefix=LEAVES
// LEAVES: result 1 expects ranks of 'cp' to have a summand, found the whole
//
// With a ring attention has parts of its keys and values, which is said: nothing is gathered. The program is still the one that was captured.
//
// RUN: fsdp-opt %s --fsdp-annotate='with={shards<world = 2>, parallel<cp = 2, ring = true>}' --fsdp-snapshot-reference --fsdp-partition=axis=cp --fsdp-verify-placed=axis=cp -o %t.ring
// RUN: FileCheck %s --check-prefix=RING < %t.ring
// RUN: fsdp-opt %t.ring --fsdp-verify-equivalent -o /dev/null
// RUN: fsdp-opt %s --fsdp-annotate='with={shards<world = 4>, parallel<cp = 2, ring = true>}' --fsdp-pipeline -o - | FileCheck %s --check-prefix=ROTATES
// RUN: sed -E 's/, fsdp.ring = #fsdp.placed<shard dim 2 in <balanced = true> over #cp>//' %t.ring | not fsdp-opt - --fsdp-verify-placed=axis=cp 2>&1 | FileCheck %s --check-prefix=UNSAID
// UNSAID: 'aten._scaled_dot_product_flash_attention_for_cpu' op expects fsdp.ring = #fsdp.placed<shard dim 2 in <balanced = true> over <"cp", 2>>, since ranks have parts of its keys
// RING-LABEL: func.func @"train/step"
// RING-NOT:  fsdp.all_gather
// RING:      aten._scaled_dot_product_flash_attention_for_cpu(%[[H:.+]], %[[H]], %[[H]], is_causal = true) {{.*}}fsdp.ring = #fsdp.placed<shard dim 2 in <balanced = true> over #cp>
// RING:      aten._scaled_dot_product_flash_attention_for_cpu_backward({{.*}}fsdp.ring = #fsdp.placed<shard dim 2 in <balanced = true> over #cp>
// RING-NOT:  fsdp.reduce_scatter
// RING:      fsdp.all_reduce sum %{{.+}} over #cp for step : tensor<f32>
//
// Its own pieces in one call under the mask; the late queries with the early keys that came, and then what is left.
//
// ROTATES-LABEL: func.func @"train/step"
// ROTATES:      fsdp.start rotate "cp"
// ROTATES-NEXT: aten._scaled_dot_product_flash_attention_for_cpu({{.*}}is_causal = true)
// ROTATES:      fsdp.wait
// ROTATES:      aten._scaled_dot_product_flash_attention_for_cpu({{%[^=]*}}) {
// ROTATES:      fsdp.select_rows {{.*}} dim 2 from [2, 0] over #cp {{.*}} : tensor<2x1x4x4xf32> -> tensor<2x1x2x4xf32>
// ROTATES:      aten._scaled_dot_product_flash_attention_for_cpu({{%[^=]*}}) {
// ROTATES-COUNT-3: aten._scaled_dot_product_flash_attention_for_cpu_backward
//
// Sequences that ranks do not divide, and no sequence at all.
//
// RUN: not fsdp-opt %s --fsdp-annotate='with={shards<world = 3>, parallel<cp = 3>}' --fsdp-snapshot-reference --fsdp-partition=axis=cp -o - 2>&1 | FileCheck %s --check-prefix=UNEVEN
// UNEVEN: 'aten.embedding' op has sequences of 8 tokens, which the 6 pieces of 'cp: 3' (two a rank, under a causal mask) do not divide; 2, 4 ranks would work
// RUN: not fsdp-opt %S/partition.mlir --fsdp-annotate='with={shards<world = 2>, parallel<cp = 2>}' --fsdp-snapshot-reference --fsdp-partition=axis=cp -o - 2>&1 | FileCheck %s --check-prefix=NONE
// NONE: expected an embedding of a batch's tokens, of whose sequences the 2 ranks of 'cp' compute parts, found none
// RUN: not fsdp-opt %s --fsdp-snapshot-reference --fsdp-partition=axis=dp -o - 2>&1 | FileCheck %s --check-prefix=AXIS
// AXIS: expected the axis 'tp' or 'cp', found 'dp'

// CHECK-DAG: #cp = #fsdp.group<"cp", 2>
// CHECK-LABEL: func.func @"train/step"
// CHECK:      %[[X:.+]] = fsdp.shard %{{.+}} dim 1 in <balanced = true> over #cp for step : tensor<2x8xi64> -> tensor<2x4xi64>
// CHECK-NEXT: %[[E:.+]] = aten.embedding(%{{.+}}, %[[X]]) {{.*}} -> tensor<2x4x4xf32>
// CHECK:      %[[H:.+]] = aten.unsqueeze(%[[E]]
// CHECK:      %[[K:.+]] = fsdp.all_gather %[[H]] dim 2 in <balanced = true> over #cp for step : tensor<2x1x4x4xf32> -> tensor<2x1x8x4xf32>
// CHECK-NEXT: aten._scaled_dot_product_flash_attention_for_cpu(%[[H]], %[[K]], %[[K]], is_causal = true) {{.*}}fsdp.queries = #fsdp.placed<shard dim 2 in <balanced = true> over #cp>
// CHECK:      %[[R:.+]] = fsdp.replay %[[H]]
// CHECK-NEXT: %[[A:.+]] = fsdp.all_gather %[[R]] dim 2 in <balanced = true> over #cp for step
// CHECK-NEXT: %[[B:.+]]:3 = aten._scaled_dot_product_flash_attention_for_cpu_backward(%{{.+}}, %[[H]], %[[A]], %[[A]]
// CHECK-NEXT: %[[S:.+]] = aten.add.Tensor(%[[B]]#1, %[[B]]#2)
// CHECK-NEXT: %[[D:.+]] = fsdp.reduce_scatter sum %[[S]] dim 2 in <balanced = true> over #cp for step : tensor<2x1x8x4xf32> -> tensor<2x1x4x4xf32>
// CHECK:      %[[G:.+]] = aten.embedding_dense_backward({{.*}}) {fsdp.placed = {{\[\[}}#fsdp.placed<partial over #cp>]]}
// CHECK-NEXT: %[[L:.+]] = fsdp.all_reduce sum %{{.+}} over #cp for step : tensor<f32>
// CHECK-NEXT: return %[[L]], %[[G]] : tensor<f32>, tensor<29x4xf32>
// CHECK:      func.func @"reference/train/step"

// Its own pieces under the mask, the front half at once, another rank's: in forward and in backward. What is gathered is brought into order.
//
// PLANNED-LABEL: func.func @"train/step"
// PLANNED:      fsdp.select_rows {{.*}} dim 1 from [0, 2] over #cp {{.*}} : tensor<2x8xi64> -> tensor<2x2xi64>
// PLANNED:      fsdp.select_rows {{.*}} dim 1 from [6, 4] over #cp
// PLANNED:      fsdp.start all_gather "cp"({{.*}}) dims [0] over #cp for step
// PLANNED:      aten.flip
// PLANNED:      aten._scaled_dot_product_flash_attention_for_cpu({{.*}}is_causal = true)
// PLANNED:      aten._scaled_dot_product_flash_attention_for_cpu({{.*}}is_causal = true)
// PLANNED:      aten._scaled_dot_product_flash_attention_for_cpu({{%[^=]*}}) {
// PLANNED:      aten.logaddexp
// PLANNED:      fsdp.select_rows {{.*}} dim 2 from [2, 0] over #cp {{.*}} : tensor<2x1x4x4xf32> -> tensor<2x1x2x4xf32>
// PLANNED:      aten._scaled_dot_product_flash_attention_for_cpu({{%[^=]*}}) {
// PLANNED-COUNT-4: aten._scaled_dot_product_flash_attention_for_cpu_backward
// PLANNED:      fsdp.start reduce_scatter sum "cp"({{.*}}) dims [0] over #cp for step
// PLANNED:      fsdp.start reduce_scatter sum {{.*}} pre 2.000000e+00 dims [0] over #shard {{.*}} of [@embed.weight]
module {
  fsdp.module "" class "Model"
  fsdp.module "embed" class "Embedding"
  fsdp.state parameter @embed.weight : tensor<29x4xf32>
  func.func @"train/step"(%w: tensor<29x4xf32> {fsdp.state = @embed.weight}, %x: tensor<2x8xi64> {fsdp.input = "x"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<29x4xf32> {fsdp.gradient = @embed.weight}) attributes {fsdp.captured} {
    %e = aten.embedding(%w, %x) : (tensor<29x4xf32>, tensor<2x8xi64>) -> tensor<2x8x4xf32>
    %h = aten.unsqueeze(%e, dim = 1) : (tensor<2x8x4xf32>) -> tensor<2x1x8x4xf32>
    %o:2 = aten._scaled_dot_product_flash_attention_for_cpu(%h, %h, %h, is_causal = true) : (tensor<2x1x8x4xf32>, tensor<2x1x8x4xf32>, tensor<2x1x8x4xf32>) -> (tensor<2x1x8x4xf32>, tensor<2x1x8xf32>)
    %s = aten.mul.Tensor(%o#0, %o#0) : (tensor<2x1x8x4xf32>, tensor<2x1x8x4xf32>) -> tensor<2x1x8x4xf32>
    %l = aten.sum(%s) : (tensor<2x1x8x4xf32>) -> tensor<f32>
    %go = aten.mul.Scalar(%o#0, other = 2.0) : (tensor<2x1x8x4xf32>) -> tensor<2x1x8x4xf32>
    %g:3 = aten._scaled_dot_product_flash_attention_for_cpu_backward(%go, %h, %h, %h, %o#0, %o#1, dropout_p = 0.0, is_causal = true) : (tensor<2x1x8x4xf32>, tensor<2x1x8x4xf32>, tensor<2x1x8x4xf32>, tensor<2x1x8x4xf32>, tensor<2x1x8x4xf32>, tensor<2x1x8xf32>) -> (tensor<2x1x8x4xf32>, tensor<2x1x8x4xf32>, tensor<2x1x8x4xf32>)
    %kv = aten.add.Tensor(%g#1, %g#2) : (tensor<2x1x8x4xf32>, tensor<2x1x8x4xf32>) -> tensor<2x1x8x4xf32>
    %a = aten.add.Tensor(%g#0, %kv) : (tensor<2x1x8x4xf32>, tensor<2x1x8x4xf32>) -> tensor<2x1x8x4xf32>
    %ge = aten.squeeze.dim(%a, dim = 1) : (tensor<2x1x8x4xf32>) -> tensor<2x8x4xf32>
    %gw = aten.embedding_dense_backward(%ge, %x, num_weights = 29, padding_idx = -1, scale_grad_by_freq = false) : (tensor<2x8x4xf32>, tensor<2x8xi64>) -> tensor<29x4xf32>
    return %l, %gw : tensor<f32>, tensor<29x4xf32>
  }
}
