//===- Passes.td - What a device's memory holds, and when --*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_MEMORY_PASSES_TD
#define FSDP_PASSES_MEMORY_PASSES_TD

include "passes/PassBase.td"

def ChunkLoss : Fsdp_ModulePass<"fsdp-chunk-loss"> {
  let summary = "compute a linear layer and its loss for some rows at a time";
  let description = [{
    With `loss_chunks = N` of `#fsdp.step` the logits that a linear layer makes
    for a cross-entropy never exist whole. What reads them, in forward and in
    backward, is computed for the rows in N parts, one behind the other: the
    logits of a part, its loss, their gradient, what that adds to the gradient
    of the weight, and the rows of the gradient of the layer's input.

    The region is found from an `aten._log_softmax` over the last dim: back to
    the product of matrices that made its rows, and from there to all that reads
    these. Casts, scales, tanh, biases, masks, label smoothing, weights of classes
    and sums of other functions of the logits may be in between; a slice of the
    logits that leaves rows out (`logits[:, :-1]`) becomes one of the layer's
    input. Everything must compute rows from the same rows, or sum over all
    of them, and nothing in backward may depend on such a sum. By what a mean
    divides is counted from the labels. What is neither of these makes the region
    none: logits that are an output, losses over another dim than the last.

    Gradients of a parameter are summed in the type in which they are reduced. The
    numbers that the loss needs are summed behind the last chunk, so that
    forward ends there, and one gather of the weight serves all chunks.

    `loss_chunks = 0` chooses: the fewest chunks of at most as many rows as the
    layer has inputs (at least 1024), and one for logits of less than 64 MiB. With a
    number, a program to train without such a region is an error that says what
    was found. Programs for inference are left alone.

    Input:

    ```mlir
    %l = aten.mm(%x, %t) : (tensor<8x4xf32>, …) -> tensor<8x16xf32>
    %p = aten._log_softmax(%l, dim = 1, half_to_float = false) : …
    %n:2 = aten.nll_loss_forward(%p, %y, …) : …     // mean of 8 rows
    …
    %g = aten.nll_loss_backward(%one, %p, %y, %n#1, …) : …
    %d = aten._log_softmax_backward_data(%g, %p, …) : …
    %dt = aten.t(%d) : …
    %dw = aten.mm(%dt, %x) : … -> tensor<16x4xf32>
    %dx = aten.mm(%d, %w) : … -> tensor<8x4xf32>
    ```

    Output, for two chunks:

    ```mlir
    %c = aten.sum(%valid) : …                        // labels that count
    %x0 = aten.slice.Tensor(%x, start = 0, end = 4) : …
    %l0 = aten.mm(%x0, %t) : … -> tensor<4x16xf32>
    …                                                // sum of 4 rows: %n0
    %dw0 = aten.mm(%d0t, %x0) : … -> tensor<16x4xf32>
    %dx0 = aten.mm(%d0, %w) : … -> tensor<4x4xf32>
    …                                                // the other rows: %n1
    %dw = aten.addmm(%dw0, %d1t, %x1) : … -> tensor<16x4xf32>
    %dx1 = aten.mm(%d1, %w) : … -> tensor<4x4xf32>
    %sum = aten.add.Tensor(%n0, %n1) : …
    %n = aten.div.Tensor(%sum, %c) : …
    %dx = fsdp.pack(%dx0, %dx1) at [0, 16] : … -> tensor<32xf32>
    ```

    Needs: a captured program. Leaves: a captured program. Must run before
    `fsdp-snapshot-reference`: sums of parts are rounded otherwise than whole
    ones.
  }];
}

def Recompute : Fsdp_ModulePass<"fsdp-recompute"> {
  let summary = "compute activations again for backward, instead of keeping them";
  let description = [{
    Activation checkpointing. What backward reads of the values that a block has
    computed in forward is computed again from the block's inputs, where the block's
    backward begins: in front of the first op that reads one of them. A block is a
    module that `modules` of `#fsdp.recompute` matches, or without these one that
    `#fsdp.buckets` wraps; what `also` says holds for its modules instead; and one
    that the model itself checkpoints (`fsdp.checkpoints`). Which ops are its own, their locations say. Without either
    on the module nothing happens.

    Kept, and read by the second computation as they are: what enters the block,
    what the rest of forward reads of it, what the program returns, and with
    `selective` what the operators of `save` return. Kept values pass an
    `fsdp.replay`, so that nothing merges both computations. Parameters do not: the
    second computation reads them where backward does, so that
    `fsdp-reshard-after-forward` finds one gather for both. What ranks of `tp` or `cp`
    gather is gathered again, once for all that backward reads of it; their sums are
    kept. Draws of random numbers are functions of their site, so that they give the same numbers again. What
    forward computed for backward alone is erased.

    Input, with `#fsdp.recompute<modules = ["block"]>`:

    ```mlir
    %h = aten.mm(%x, %w) : …        // block
    %y = aten.relu(%h) : …          // block
    %o = aten.mul.Tensor(%y, %y)    // block
    %l = aten.sum(%o) : …
    …
    %d = aten.mul.Tensor(%g, %y) : …
    ```

    Output:

    ```mlir
    %h = aten.mm(%x, %w) : …
    %y = aten.relu(%h) : …
    %o = aten.mul.Tensor(%y, %y)
    %l = aten.sum(%o) : …
    …
    %r = fsdp.replay %x : …
    %h2 = aten.mm(%r, %w) : …
    %y2 = aten.relu(%h2) : …
    %d = aten.mul.Tensor(%g, %y2) : …
    ```

    Needs: a sharded program before `fsdp-reshard-after-forward`. Leaves: the same
    values (`fsdp-verify-equivalent`).
  }];
}

def OffloadStates : Fsdp_ModulePass<"fsdp-offload-states"> {
  let summary = "let states lie in the host's memory, which updates them";
  let description = [{
    What `#fsdp.offload` says leaves the device. With `params`: parameters, the
    optimizer's states, its numbers and running sums of shards of gradients; what
    is gathered again within a step, and sums of whole gradients, stay. With
    `optimizer` the optimizer's states and numbers alone. Then each tensor is
    copied to where it is read:

    * a shard to the device in front of its gather and of the casts there, once for
      each gather (a second gather copies again); a parameter that is not sharded
      in front of its first use in forward, and, where its bucket is gathered
      again for backward, of its first one there;
    * a reduced gradient to the host, behind the casts of it. Running sums and
      updates are computed there, and so is what is made of them;
    * numbers that the updates read (what gradients are divided by, `found_inf`),
      and what of the host's the program returns.

    The terms of the gradients' norm are computed bucket by bucket, in front of
    the gradients' copies, so that no gradient waits on the device for the last one.

    Input:

    ```mlir
    %full = fsdp.all_gather %w dim 0 over #shard : …
    …
    %g = fsdp.reduce_scatter avg %gw dim 0 over #shard of @w : …
    …
    %new = fsdp.update sgd params(%w) grads(%g) …
    ```

    Output:

    ```mlir
    fsdp.state parameter @w : … memory host
    …
    %d = fsdp.copy %w to device of @w : …
    %full = fsdp.all_gather %d dim 0 over #shard : …
    …
    %g = fsdp.reduce_scatter avg %gw dim 0 over #shard of @w : …
    %h = fsdp.copy %g to host of @w : …
    …
    %new = fsdp.update sgd params(%w) grads(%h) …
    ```

    Needs a whole step, sharded or for inference. Without `params` and `optimizer`
    nothing changes.
  }];
}

def OffloadActivations : Fsdp_ModulePass<"fsdp-offload-activations"> {
  let summary = "let what backward reads wait in the host's memory";
  let description = [{
    Results of forward's operators in modules that a pattern of `#fsdp.offload`
    matches, of at least 1 KiB, are copied to the host behind their last use in
    forward and back in front of their first one in backward. Views of them are
    made anew there. What is used last in forward stays, an eighth of all bytes:
    backward wants it first. Inputs, results of the program, parameters in any
    form, and what is not contiguous stay, too.

    Input:

    ```mlir
    %h = aten.relu(%x) : …
    %y = aten.mm(%h, %w) : …
    …
    %g = aten.mm(%t, %h) : …
    ```

    Output:

    ```mlir
    %h = aten.relu(%x) : …
    %y = aten.mm(%h, %w) : …
    %away = fsdp.copy %h to host : …
    …
    %back = fsdp.copy %away to device : …
    %g = aten.mm(%t, %back) : …
    ```

    Needs a whole step. Without such patterns nothing changes.
  }];
}

#endif // FSDP_PASSES_MEMORY_PASSES_TD
