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
    the order of the state table. Bytes are gathered, so that members may be of several
    types. What is reduced has one element type: members of another type than the first
    one's form a transfer of their own, called `bucket/type`; so do gathers of the layout
    `fsdp2`, which copies members into one tensor. Maxima of parameters that are cast to
    eight bits (`fsdp-float8-gathers`) travel together.

    Input:

    ```mlir
    %w = fsdp.all_gather %a dim 0 over #shard : …
    %b = fsdp.all_gather %c dim 0 over #shard : …
    ```

    Output:

    ```mlir
    %f = fsdp.start all_gather "fc1"(%a, %c) dims [0, 0] over #shard on gather : …
    %w, %b = fsdp.wait %f : …
    ```

    Needs: logical collectives, buckets on states. Leaves: starts and waits.
  }];
}

def BucketCopies : Fsdp_ModulePass<"fsdp-bucket-copies"> {
  let summary = "fuse the copies of a bucket between memories into one";
  let description = [{
    Copies `of` parameters of one bucket in one direction become one `copy.start`
    and `wait`: those of shards that are to be gathered, of other parameters, of
    each one's second life, and of what was computed one each. What the program was
    given is copied at the first of them, what it computed at the last, with
    casts and running sums of it behind. Copies of no parameter stay alone.

    Input:

    ```mlir
    %a = fsdp.copy %w to device of @fc1.weight : …
    %c = fsdp.copy %b to device of @fc1.bias : …
    ```

    Output:

    ```mlir
    %f = fsdp.copy.start "fc1"(%w, %b) to device on upload : …
    %a, %c = fsdp.wait %f : …
    ```

    Needs: collectives as starts and waits. Leaves: all copies so.
  }];
}

def ScheduleCollectives : Fsdp_ModulePass<"fsdp-schedule-collectives"> {
  let summary = "start transfers early and wait for them late";
  let description = [{
    Other ops keep their order. Let gathers be numbered by their first use, in
    forward and in backward each.

    * A gather is waited for right before its first use, and started before the
      wait of the gather `prefetch` (`#fsdp.step`, or of its bucket `#fsdp.rule`) numbers
      before it, and no later than the gather behind it. The first ones of forward
      start at the beginning of the program, those of backward after the last
      use of a gathered tensor in forward.
    * Casts and replays of shards stand right before the start that reads them.
    * A reduction starts right after its last gradient is computed; it is waited
      for right after `reductions_in_flight` others (`#fsdp.step`, by default one) have
      started, the last ones before their first use: with one, at most two buckets of
      gradients are in flight. What starts behind a wait begins when that is over, gathers
      too. Casts and sums of its
      results stand right behind its wait.
    * A copy of shards to the device is started when the gather before the one that
      reads them is, and waited for right in front of that. A copy of parameters
      that are not gathered is placed as a gather is.
    * A copy of gradients to the host starts as soon as they are reduced, with what
      computes their norm in front of it, and is waited for when the next one
      has started, with running sums behind it: as of reductions, two buckets are in
      flight.
    * Parameters that the host updates and the device holds go to the host in the
      order of their updates, spread over the step: forward takes its part of all bytes to
      the host, so that gradients find the way free. They are waited for right before
      their updates.
    * What is copied to the host only to come back, an activation, starts when it
      is there. It is waited for when an eighth of all such bytes have started
      behind it, at the latest when backward begins. It comes back as long before
      its first use as others of an eighth of the bytes have theirs.
    * Other copies start when their operands are there and are waited for right
      before their first use.
    * An all-reduce of gradients starts as soon as what it reads is there, with
      replicas right behind the wait of the shards' reduction, and is waited for
      right before its first use.

    Needs: starts and waits. Leaves: the same ops in a new order.
  }];
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

#endif // FSDP_PASSES_SCHEDULE_PASSES_TD
