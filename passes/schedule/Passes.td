//===- Passes.td - From collectives to buckets in time -----*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_SCHEDULE_PASSES_TD
#define FSDP_PASSES_SCHEDULE_PASSES_TD

include "passes/PassBase.td"

def BucketCollectives : Fsdp_ModulePass<"fsdp-bucket-collectives"> {
  let summary = "fuse the collectives of a bucket into one transfer";
  let description = [{
    The gathers of one bucket and one life become one `all_gather.start` and
    `wait`, at the first of them; its reductions one `reduce_scatter.start` and
    `wait`, at the last, with the casts and sums of their results behind it; the
    all-reduces of its gradients one `all_reduce.start` on the stream of the
    replicas; the metrics another one. Members stand in
    the order of the state table. A transfer has one element type: members of
    another type than the first one's form a transfer of their own, called
    `bucket/type`.

    Input:

    ```mlir
    %w = fsdp.all_gather %a dim 0 over #shard : …
    %b = fsdp.all_gather %c dim 0 over #shard : …
    ```

    Output:

    ```mlir
    %f = fsdp.all_gather.start "fc1"(%a, %c) dims [0, 0] over #shard on gather : …
    %w, %b = fsdp.wait %f : …
    ```

    Needs: logical collectives, buckets on states. Leaves: starts and waits.
  }];
}

def ScheduleCollectives : Fsdp_ModulePass<"fsdp-schedule-collectives"> {
  let summary = "start transfers early and wait for them late";
  let description = [{
    Other ops keep their order. Let gathers be numbered by their first use, in
    forward and in backward each.

    * A gather is waited for right before its first use, and started before the
      wait of the gather `prefetch` numbers before it. The first ones of forward
      start at the beginning of the program, those of backward after the last
      use of a gathered tensor in forward.
    * Casts and replays of shards stand right before the start that reads them.
    * A reduction starts right after its last gradient is computed; it is waited
      for right after the next one has started, the last one before its first
      use: at most two buckets of gradients are in flight. Casts and sums of its
      results stand right behind its wait.
    * An all-reduce of gradients starts as soon as what it reads is there, with
      replicas right behind the wait of the shards' reduction, and is waited for
      right before its first use.

    Needs: starts and waits. Leaves: the same ops in a new order.
  }];
  let options = [
    Option<"prefetch", "prefetch", "int64_t", "1",
           "buckets that are gathered ahead of the one in use">
  ];
}

def InsertFrees : Fsdp_ModulePass<"fsdp-insert-frees"> {
  let summary = "end each gathered tensor's life after its last use";
  let description = [{
    Uses through views count. Members of one bucket are freed each on its own;
    those with one last use share an op.

    Input:

    ```mlir
    %w, %b = fsdp.wait %f : …
    %y = aten.addmm(%b, %x, %w) : …
    %z = aten.relu(%y) : …
    ```

    Output:

    ```mlir
    %w, %b = fsdp.wait %f : …
    %y = aten.addmm(%b, %x, %w) : …
    fsdp.free %w, %b : …
    %z = aten.relu(%y) : …
    ```

    Needs: starts and waits in their final order.
  }];
}

def CopyBuckets : Fsdp_ModulePass<"fsdp-copy-buckets"> {
  let summary = "move buckets as FSDP2 does, by copies into one tensor";
  let description = [{
    Of buckets whose parameters have `layout fsdp2`, each transfer moves one tensor
    that its members are copied into. A piece is what one rank has of all members,
    side by side and without room between them, with rows of zeros where a rank has
    less than others. A gather puts the ranks' pieces one behind the other, and each
    member's rows are copied out of them; the gathered pieces are freed then.
    Gradients are copied into such pieces, of which each rank gets one, reduced: the
    shards are views of it. All-reduces of replicas go on with that one.

    So a bucket has as many copies, calls and bytes as under FSDP2, except that a
    second gather moves what backward reads, and that members of another type are
    another transfer. It is there to be compared with; `rows` and `flat` move the same
    values without copies.

    Input:

    ```mlir
    %f = fsdp.all_gather.start "b"(%w, %v) dims [0, 0] over #shard on gather
        : tensor<7x17xf32>, tensor<7xf32> -> …
    …
    %fw, %fv = fsdp.wait %f : …
    …
    %s = fsdp.reduce_scatter.start avg "b"(%gw, %gv) dims [0, 0] over #shard on reduce
        of [@w, @v] : …
    …
    %sw, %sv = fsdp.wait %s : … -> tensor<7x17xf32>, tensor<7xf32>
    ```

    Output:

    ```mlir
    %p = fsdp.pack(%w, %v) at [0, 119] : … -> tensor<126xf32>
    %f = fsdp.all_gather.start "b"(%p) dims [0] over #shard on gather : …
    …
    %full = fsdp.wait %f : … -> tensor<252xf32>
    %0 = aten.as_strided(%full, size = [2, 119], stride = [126, 1], storage_offset = 0) : …
    %1 = aten.clone(%0, memory_format = "contiguous") : …
    %fw = aten.as_strided(%1, size = [13, 17], stride = [17, 1], storage_offset = 0) : …
    %2 = aten.as_strided(%full, size = [2, 7], stride = [126, 1], storage_offset = 119) : …
    %3 = aten.clone(%2, memory_format = "contiguous") : …
    %fv = aten.as_strided(%3, size = [13], stride = [1], storage_offset = 0) : …
    fsdp.free %full : …
    …
    %g = aten._chunk_cat([%gw, %gv], dim = 0, num_chunks = 2) : … -> tensor<2x126xf32>
    %s = fsdp.reduce_scatter.start avg "b"(%g) dims [0] over #shard on reduce : …
    …
    %r = fsdp.wait %s : … -> tensor<1x126xf32>
    %sw = aten.as_strided(%r, size = [7, 17], stride = [17, 1], storage_offset = 0) : …
    %sv = aten.as_strided(%r, size = [7], stride = [1], storage_offset = 119) : …
    ```

    Needs: starts, waits and frees in their final order.
  }];
}

#endif // FSDP_PASSES_SCHEDULE_PASSES_TD
