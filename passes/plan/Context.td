//===- Context.td - Attention of parts of a sequence -------*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_PLAN_CONTEXT_TD
#define FSDP_PASSES_PLAN_CONTEXT_TD

include "passes/PassBase.td"

def LowerContext : Fsdp_ModulePass<"fsdp-lower-context"> {
  let summary = "put causal attention of parts of a sequence together";
  let description = [{
    Attention with `fsdp.queries` has the queries of two pieces of a sequence
    (`#fsdp.parts` with `balanced`) and keys and values of all of it. It becomes calls
    on pieces of one size: each rank's two under the mask, its later one with the
    front half at once, and one for each other rank, whose operands differ by rank
    (`fsdp.select_rows`). What they give is weighed by the sums of their scores.
    Backward likewise, with the output and sums of forward; gradients of keys and
    values are a rank's summands.

    Input, of rank r of 2:

    ```mlir
    %o, %l = aten._scaled_dot_product_flash_attention_for_cpu(%q, %k, %v, is_causal = true)
        {fsdp.queries = #fsdp.placed<shard dim 2 in … over #cp>}
        : (tensor<1x4x16x8xf32>, tensor<1x4x32x8xf32>, tensor<1x4x32x8xf32>) -> …
    ```

    Output:

    ```mlir
    %q0 = aten.slice.Tensor(%q, dim = 2, start = 0, end = 8) : …
    %k0 = fsdp.select_rows %k dim 2 from [0, 8] over #cp : … -> tensor<1x4x8x8xf32>
    %v0 = fsdp.select_rows %v dim 2 from [0, 8] over #cp : … -> tensor<1x4x8x8xf32>
    %o0, %l0 = aten._scaled_dot_product_flash_attention_for_cpu(%q0, %k0, %v0, is_causal = true) : …
    …
    ```

    Needs: a scheduled program. Leaves: no `fsdp.queries`.
  }];
}

def LowerWindows : Fsdp_ModulePass<"fsdp-lower-windows"> {
  let summary = "compute windows of ranks that have parts of a sequence";
  let description = [{
    Attention under a window that a kernel is told (`aten._flash_attention_forward`
    with `window_size_left` and none to the right), of which ranks have parts of the
    queries. With `fsdp.ring` they have the same parts of keys and values, and need
    what the window reaches of the piece in front of each of theirs: its end is
    passed on while a rank computes with its own keys, and what both give is weighed by
    the sums of their scores. In backward the gradients of what was passed on go back.
    To the rank behind that is one step; to the rank in front, of `n` ranks, a step of
    each two ranks for each factor 2 of `n`, and rotations by one for what is left of
    it. With `fsdp.queries` keys and values are all there, and the pieces in front are
    taken of them (`fsdp.select_rows`).

    CPUs have no kernel that is told a window: for these, attention of parts or not,
    it becomes calls of blocks of queries with the keys of their band, under masks of
    a block's size.

    Input, of 2 ranks:

    ```mlir
    %o, %l, … = aten._flash_attention_forward(%q, %k, %v, max_q = 8, max_k = 8, …,
          window_size_left = 3, window_size_right = 0)
        {fsdp.ring = #fsdp.placed<shard dim 1 over #cp>}
        : (tensor<1x8x4x8xbf16>, tensor<1x8x2x8xbf16>, tensor<1x8x2x8xbf16>) -> …
    ```

    Output:

    ```mlir
    %kt = aten.slice.Tensor(%k, dim = 1, start = 5, end = 8) : …
    %rotate.cp = fsdp.start rotate "cp"(%kt, %vt) over #cp for step on replicate : …
    %o0, %l0, … = aten._flash_attention_forward(%q, %k, %v, …) : …
    %came:2 = fsdp.wait %rotate.cp : …
    %q1 = aten.slice.Tensor(%q, dim = 1, start = 0, end = 3) : …
    %o1, %l1, … = aten._flash_attention_forward(%q1, %came#0, %came#1, …,
          window_size_left = 0) : …
    …
    ```

    Needs: a scheduled program. Leaves: no windows with `fsdp.ring` or
    `fsdp.queries`, and for CPUs none that kernels are told.
  }];
}

def LowerDocuments : Fsdp_ModulePass<"fsdp-lower-documents"> {
  let summary = "compute documents of ranks that have parts of a sequence";
  let description = [{
    With `fsdp.queries` attention of documents that lie one behind the other
    (`aten._flash_attention_forward` with `cum_seq_q`) has the queries of one piece of each row,
    or of two (`#fsdp.parts` with `balanced`), and all keys and values. It becomes one
    call for each piece, which is told other beginnings: of each document the queries
    in the piece, perhaps none, and its keys; where queries see no later keys, the
    document that the piece ends in is cut there. Where sequences begin is computed
    once for all layers. Gradients of keys and values are a rank's summands.

    Input, of rank r of 2, 2 rows of 8 positions:

    ```mlir
    %o:5 = aten._flash_attention_forward(%q, %k, %v, %b, %b, max_q = 4, max_k = 8, …, is_causal = true, …)
        {fsdp.queries = #fsdp.placed<shard in <blocks = 2> over #cp>}
        : (tensor<8x4x8xbf16>, tensor<16x2x8xbf16>, tensor<16x2x8xbf16>, tensor<9xi32>, tensor<9xi32>) -> …
    ```

    Output:

    ```mlir
    %e = fsdp.select_rows %ends dim 0 from [0, 1] over #cp : tensor<2x2xi32> -> tensor<1x2xi32>
    …
    %kb, %i = aten.sort(%all) : (tensor<11xi32>) -> (tensor<11xi32>, tensor<11xi64>)
    …
    %o:5 = aten._flash_attention_forward(%q, %k, %v, %qb, %kb, max_q = 4, max_k = 8, …) : …
    ```

    Needs: a scheduled program. Leaves: no documents with `fsdp.queries`.
  }];
}

def LowerRing : Fsdp_ModulePass<"fsdp-lower-ring"> {
  let summary = "pass keys and values from rank to rank";
  let description = [{
    Attention with `fsdp.ring` has a rank's parts of queries, keys and values. It
    becomes a call on these and, for each other rank, calls on the keys and values
    that were passed on meanwhile: without a mask one; under a causal mask, of
    balanced parts, two of half the queries and keys (`fsdp.select_rows`), which is
    what there is to compute. What they give is weighed by the sums of their scores.
    In backward the gradients of keys and values travel with these, in f32 at least.
    Heads that are repeated for groups of queries travel once.

    Input, of 2 ranks:

    ```mlir
    %o, %l = aten._scaled_dot_product_flash_attention_for_cpu(%q, %k, %v)
        {fsdp.ring = #fsdp.placed<shard dim 2 over #cp>}
        : (tensor<1x4x16x8xf32>, tensor<1x4x16x8xf32>, tensor<1x4x16x8xf32>) -> …
    ```

    Output:

    ```mlir
    %rotate.cp = fsdp.start rotate "cp"(%k, %v) over #cp for step on replicate : …
    %o0, %l0 = aten._scaled_dot_product_flash_attention_for_cpu(%q, %k, %v) : …
    %passed:2 = fsdp.wait %rotate.cp : …
    %o1, %l1 = aten._scaled_dot_product_flash_attention_for_cpu(%q, %passed#0, %passed#1) : …
    %all = aten.logaddexp(%l0, %l1) : …
    …
    ```

    Needs: a scheduled program. Leaves: no `fsdp.ring`.
  }];
}

#endif // FSDP_PASSES_PLAN_CONTEXT_TD
