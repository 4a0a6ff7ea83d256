//===- Passes.td - All passes of the compiler --------------------*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_TD
#define FSDP_PASSES_TD

include "mlir/Pass/PassBase.td"

class Fsdp_ModulePass<string argument> : Pass<argument, "::mlir::ModuleOp"> {
  let dependentDialects = ["::fsdp::FsdpDialect", "::fsdp::aten::AtenDialect"];
}

//===----------------------------------------------------------------------===//
// Shard stage: captured graph -> shards, logical collectives, optimizer
//===----------------------------------------------------------------------===//

def VerifyCaptured : Fsdp_ModulePass<"fsdp-verify-captured"> {
  let summary = "check the contract of a captured program";
  let description = [{
    A captured program is one function marked `fsdp.captured`: a straight line
    of functional `aten` ops, `fsdp.constant`s and `fsdp.draw`s, in which every
    state of the module is an argument, every other argument is an input, and
    the results are the loss (first, a floating-point scalar), further outputs,
    the new values of changed buffers, one gradient for each `parameter` and the
    new random state. Outputs are contiguous and have names of their own. Draws
    start from that state, each at a site of its own; no `aten` op draws.

    A program called `infer/…` has neither a loss of that kind nor gradients:
    its results are outputs and the new values of changed buffers and of the
    random state.

    Needs: nothing. Leaves the program as it is.
  }];
}

def SnapshotReference : Fsdp_ModulePass<"fsdp-snapshot-reference"> {
  let summary = "keep a copy of the captured program to compare with";
  let description = [{
    Clones the captured function `@"train/step"` as `@"reference/step"`. All
    other passes leave functions called `reference/…` alone;
    `fsdp-verify-equivalent` compares with them.

    Needs: a captured program. Leaves: the program and its reference.
  }];
}

def DropReference : Fsdp_ModulePass<"fsdp-drop-reference"> {
  let summary = "erase the copy of the captured program";
  let description = "The opposite of `fsdp-snapshot-reference`.";
}

def AssignBuckets : Fsdp_ModulePass<"fsdp-assign-buckets"> {
  let summary = "decide which parameters are moved together";
  let description = [{
    Writes `bucket` on every parameter, frozen ones too. A wrap policy chooses
    modules of the model; a parameter belongs to the innermost chosen module
    that contains all its names, and to the bucket `root` if there is none.

    | policy    | chosen modules                                            |
    |-----------|-----------------------------------------------------------|
    | `blocks`  | outermost repeated blocks: siblings with numbers as names and one class, at least two, that hold parameters |
    | `classes` | those whose class is listed (TRANSFORMER_BASED_WRAP)        |
    | `size`    | those with at least `min-params` parameters that no chosen module inside holds (SIZE_BASED_WRAP) |
    | `none`    | none: one bucket (NO_WRAP)                                |

    Input:

    ```mlir
    fsdp.module "layers.0" class "Block"
    fsdp.module "layers.1" class "Block"
    fsdp.state parameter @layers.0.weight : tensor<8x8xf32>
    fsdp.state parameter @layers.1.weight : tensor<8x8xf32>
    fsdp.state parameter @head.weight : tensor<8x8xf32>
    ```

    Output:

    ```mlir
    fsdp.state parameter @layers.0.weight : tensor<8x8xf32> bucket "layers.0"
    fsdp.state parameter @layers.1.weight : tensor<8x8xf32> bucket "layers.1"
    fsdp.state parameter @head.weight : tensor<8x8xf32> bucket "root"
    ```

    Needs: the module tree (`fsdp.module`). Leaves: a bucket on each parameter.
  }];
  let options = [
    Option<"policy", "policy", "std::string", "\"blocks\"",
           "blocks, classes, size or none">,
    ListOption<"classes", "classes", "std::string",
               "module classes that policy `classes` chooses">,
    Option<"minParams", "min-params", "int64_t", "100000000",
           "parameters that policy `size` gives a module at least">
  ];
}

def SetSeed : Fsdp_ModulePass<"fsdp-set-seed"> {
  let summary = "begin random sequences at the config's seed";
  let description = [{
    Gives the state that draws start from its first value, (seed, 0). Programs
    that draw nothing have none.

    Input: `fsdp.state random @"random/state" : tensor<2xi64>`

    Output, for `seed=7`:

    ```mlir
    fsdp.state random @"random/state" : tensor<2xi64> init dense<[7, 0]> : tensor<2xi64>
    ```
  }];
  let options = [
    Option<"seed", "seed", "int64_t", "0", "the seed">,
  ];
}

def ShardParameters : Fsdp_ModulePass<"fsdp-shard-parameters"> {
  let summary = "let each rank hold its rows of every parameter";
  let description = [{
    Puts `fsdp.mesh = #fsdp.mesh<shard = N>` on the module. Parameters, frozen
    ones too, become shards on dim 0 (ceil(d / N) rows a rank, padded with
    zeros); their uses see an `all_gather`, their gradients go through
    `reduce_scatter avg … of @p`. Buffers, constants and inputs stay each rank's
    own. With one rank nothing is cut and nothing exchanged.

    Input:

    ```mlir
    fsdp.state parameter @w : tensor<13x17xf32>
    func.func @"train/step"(%w: tensor<13x17xf32> {fsdp.state = @w}, …)
        -> (…, tensor<13x17xf32> {fsdp.gradient = @w})
        attributes {fsdp.captured} {
      %t = aten.t(%w) : …
      …
      return …, %g : …
    ```

    Output, for two ranks:

    ```mlir
    fsdp.state parameter @w : tensor<13x17xf32> sharded <dim 0 over #shard>
    func.func @"train/step"(%w: tensor<7x17xf32> {fsdp.state = @w}, …)
        -> (…, tensor<7x17xf32> {fsdp.gradient = @w}) {
      %f = fsdp.all_gather %w dim 0 over #shard : …
      %t = aten.t(%f) : …
      …
      %s = fsdp.reduce_scatter avg %g dim 0 over #shard of @w : …
      return …, %s : …
    ```

    Needs: a captured program. Leaves: a program on shards, no longer captured.
  }];
  let options = [
    Option<"world", "world", "int64_t", "1", "number of ranks">
  ];
}

def MoveCastsToShards : Fsdp_ModulePass<"fsdp-move-casts-to-shards"> {
  let summary = "cast shards before they are gathered, not whole tensors after";
  let description = [{
    If a gathered parameter is only read by one cast to a type that is not
    wider, each rank casts its own rows and fewer bytes travel. A cast of the
    gradient stands before its reduction and stays there: it decides the type
    that is reduced in.

    Input:

    ```mlir
    %f = fsdp.all_gather %w dim 0 over #shard : tensor<7x17xf32> -> tensor<13x17xf32>
    %c = aten._to_copy(%f, dtype = bf16) : (tensor<13x17xf32>) -> tensor<13x17xbf16>
    ```

    Output:

    ```mlir
    %c = aten._to_copy(%w, dtype = bf16) : (tensor<7x17xf32>) -> tensor<7x17xbf16>
    %f = fsdp.all_gather %c dim 0 over #shard : tensor<7x17xbf16> -> tensor<13x17xbf16>
    ```

    Needs: logical collectives. Must run before `fsdp-reshard-after-forward`,
    which gathers again what is gathered.
  }];
}

def ReshardAfterForward : Fsdp_ModulePass<"fsdp-reshard-after-forward"> {
  let summary = "gather again for backward instead of keeping what was gathered";
  let description = [{
    A gathered parameter that backward reads gets a second life: `fsdp.replay`
    of the shard and a second `all_gather`, which backward reads instead. Views
    and copies of the gathered tensor that backward reads are built again on
    it, so that nothing keeps the first one alive. Forward is everything up to
    the last op that the loss, outputs and changed buffers need. What backward
    does not read is not gathered again.

    `mode`: `all` buckets; `all-but-root`, as FSDP2's default; `none` keeps
    every gathered parameter until its last use in backward.

    Input:

    ```mlir
    %f = fsdp.all_gather %w dim 0 over #shard : …
    %t = aten.t(%f) : …
    %y = aten.mm(%x, %t) : …      // forward
    …
    %gx = aten.mm(%gy, %f) : …    // backward
    ```

    Output:

    ```mlir
    %f = fsdp.all_gather %w dim 0 over #shard : …
    %t = aten.t(%f) : …
    %y = aten.mm(%x, %t) : …
    …
    %r = fsdp.replay %w : …
    %g = fsdp.all_gather %r dim 0 over #shard : …
    %gx = aten.mm(%gy, %g) : …
    ```

    Needs: logical collectives, buckets on states (unless `mode` is `none`).
  }];
  let options = [
    Option<"mode", "mode", "::fsdp::ReshardMode",
           "::fsdp::ReshardMode::AllButRoot", "which buckets",
           [{::llvm::cl::values(
             clEnumValN(::fsdp::ReshardMode::All, "all", "every bucket"),
             clEnumValN(::fsdp::ReshardMode::AllButRoot, "all-but-root",
                        "every bucket but the root"),
             clEnumValN(::fsdp::ReshardMode::None, "none", "no bucket"))}]>
  ];
}

def InsertMetrics : Fsdp_ModulePass<"fsdp-insert-metrics"> {
  let summary = "average outputs that are numbers over the ranks";
  let description = [{
    For each output that is a floating-point tensor without dims a result is
    added that is its mean over the ranks, in f32, for the run's metrics. The
    output itself stays each rank's own. The loss of a training program is left
    to `fsdp-insert-optimizer`.

    Input:

    ```mlir
    func.func @"infer/step"(…) -> (tensor<f32> {fsdp.output = "accuracy"}) {
      …
      return %accuracy : tensor<f32>
    ```

    Output:

    ```mlir
    func.func @"infer/step"(…) -> (tensor<f32> {fsdp.output = "accuracy"},
                                   tensor<f32> {fsdp.metric = "accuracy"}) {
      …
      %m = fsdp.all_reduce avg %accuracy over #shard : tensor<f32>
      return %accuracy, %m : tensor<f32>, tensor<f32>
    ```

    Needs: a mesh. Must run before `fsdp-insert-optimizer`, so that all metrics
    travel in one transfer.
  }];
}

def InsertOptimizer : Fsdp_ModulePass<"fsdp-insert-optimizer"> {
  let summary = "turn gradients into new parameters, on shards";
  let description = [{
    Adds the optimizer's states to the module and to the program, replaces the
    results that are gradients by new parameters and states, and adds the
    metrics: the loss as mean over ranks and the global 2-norm of the gradients
    before clipping, which travel in one all-reduce.

    The norm is the root of the sum of squares of all ranks' shards; padding
    rows are zero and do not count. Half-precision gradients are summed in f32.
    With `max-grad-norm` c the gradients are divided by
    max((norm + 1e-6) / c, 1), which is torch.nn.utils.clip_grad_norm_ with one
    rounding less (its coefficient is the reciprocal).

    There is one optimizer op for each element type. Programs for inference
    (`infer/…`) stay as they are.

    Input:

    ```mlir
    func.func @"train/step"(%w: tensor<7x17xf32> {fsdp.state = @w}, …)
        -> (tensor<f32> {fsdp.output = "loss"},
            tensor<7x17xf32> {fsdp.gradient = @w}) {
      …
      return %loss, %s : …
    ```

    Output (sgd without momentum):

    ```mlir
    fsdp.state scalar @"optimizer/lr" : tensor<f32> init 1.000000e-03 : f32
    func.func @"train/step"(%w: tensor<7x17xf32> {fsdp.state = @w},
                            %lr: tensor<f32> {fsdp.state = @"optimizer/lr"}, …)
        -> (tensor<f32> {fsdp.output = "loss"},
            tensor<f32> {fsdp.output = "grad_norm"},
            tensor<7x17xf32> {fsdp.state = @w}) {
      …
      %l = fsdp.all_reduce avg %loss over #shard : tensor<f32>
      %a = fsdp.all_reduce avg %sum_of_squares over #shard : tensor<f32>
      …
      %new = fsdp.sgd params(%w) grads(%s) momentum_buffers() lr %lr …
      return %l, %norm, %new : …
    ```

    Needs: gradients as results (`fsdp.gradient`). Leaves: a whole step.
  }];
  let options = [
    Option<"name", "name", "std::string", "\"adamw\"", "adamw, adam or sgd">,
    Option<"lr", "lr", "double", "1.0e-3", "first learning rate">,
    Option<"beta1", "beta1", "double", "0.9", "decay of the first moment">,
    Option<"beta2", "beta2", "double", "0.999", "decay of the second moment">,
    Option<"eps", "eps", "double", "1.0e-8", "added to the denominator">,
    Option<"weightDecay", "weight-decay", "double", "0.0", "weight decay">,
    Option<"momentum", "momentum", "double", "0.0", "momentum of sgd">,
    Option<"nesterov", "nesterov", "bool", "false", "Nesterov's momentum">,
    Option<"maxGradNorm", "max-grad-norm", "double",
           "std::numeric_limits<double>::infinity()",
           "clip gradients to this global norm; inf does not clip">
  ];
}

//===----------------------------------------------------------------------===//
// Schedule stage: logical collectives -> buckets in time
//===----------------------------------------------------------------------===//

def BucketCollectives : Fsdp_ModulePass<"fsdp-bucket-collectives"> {
  let summary = "fuse the collectives of a bucket into one transfer";
  let description = [{
    The gathers of one bucket and one life become one `all_gather.start` and
    `wait`, at the first of them; its reductions one `reduce_scatter.start` and
    `wait`, at the last; the metrics one `all_reduce.start`. Members stand in
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
      use: at most two buckets of gradients are in flight.

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

//===----------------------------------------------------------------------===//
// Contracts
//===----------------------------------------------------------------------===//

def VerifySharded : Fsdp_ModulePass<"fsdp-verify-sharded"> {
  let summary = "check the contract of a sharded program";
  let description = [{
    * Each parameter's gradient goes through one reduction, by `avg`, over
      groups whose sizes multiply to the mesh's size; frozen parameters have
      none.
    * The optimizer updates each parameter once, with that gradient.
    * A program for inference reduces no gradient and updates no parameter.
    * Only ops that keep padding rows zero (invariant P) read shards: casts,
      replays, collectives, norms, the optimizer.
    * No schedule op is there yet.
  }];
}

def VerifyScheduled : Fsdp_ModulePass<"fsdp-verify-scheduled"> {
  let summary = "check the contract of a scheduled program";
  let description = [{
    * Each future is waited for exactly once.
    * No tensor is read after it was freed, also not through a view.
    * No tensor is freed while a transfer reads it.
    * Each gathered tensor is freed, once.
    * Collectives stand at the top level of a program, none is logical.
  }];
}

def VerifyEquivalent : Fsdp_ModulePass<"fsdp-verify-equivalent"> {
  let summary = "prove that a program computes what was captured";
  let description = [{
    Numbers the values of the reference and of the program in one table, with
    collectives, replays and waits transparent, and compares the numbers of the
    loss, of outputs and changed buffers, and of what each parameter's reduction
    and optimizer take as its gradient. The order of ops, copies of ops and dead
    ops do not matter; any other difference is an error that names the first
    result that differs and the op behind it.

    Needs: `@"reference/…"` in the module, or a file with `to`.
  }];
  let options = [
    Option<"to", "to", "std::string", "\"\"",
           "file of the captured program; the module's reference if empty">
  ];
}

def Unshard : Fsdp_ModulePass<"fsdp-unshard"> {
  let summary = "erase the sharding, for reading";
  let description = [{
    Gives the program back that one rank would run on whole tensors: no
    collectives, no replays, no optimizer, gradients as results. With `cse`
    after it, that is the captured program up to the order of ops. For people;
    the compiler itself proves equality with `fsdp-verify-equivalent`.

    Needs: a program of the shard or schedule stage.
  }];
}

//===----------------------------------------------------------------------===//
// Plan stage: scheduled program -> addresses and events
//===----------------------------------------------------------------------===//

def MaterializeStorages : Fsdp_ModulePass<"fsdp-materialize-storages"> {
  let summary = "give transfers and results memory of their own where they need it";
  let description = [{
    Puts an `aten.clone` in front of

    * an operand of `reduce_scatter.start` that is not all of its storage, that
      is not contiguous, or that a state, an input or a constant holds: padding
      rows are zeroed behind it;
    * an operand of `all_reduce.start` that something else still reads, or that
      a state, an input or a constant holds: it is reduced in place;
    * an operand of `all_gather.start` that is not contiguous or is a constant;
    * a result of the program that lies in a state (other than the one it is
      bound to), which the optimizer overwrites before the result is taken.

    Needs a scheduled program. Programs of well-behaved models stay as they are.

    ```mlir
    %f = fsdp.reduce_scatter.start avg "a"(%view) ...
    ```
    becomes
    ```mlir
    %own = aten.clone(%view, memory_format = "contiguous") ...
    %f = fsdp.reduce_scatter.start avg "a"(%own) ...
    ```
  }];
}

def InsertZeroPadding : Fsdp_ModulePass<"fsdp-insert-zero-padding"> {
  let summary = "zero the padding rows of gradients before they are reduced";
  let description = [{
    Puts `fsdp.zero_padding` in front of a `reduce_scatter.start` for each member
    whose rows do not divide evenly: its memory held other data before
    (invariant P).

    ```mlir
    fsdp.zero_padding %g dim 0 over #shard : tensor<13x17xf32>
    %f = fsdp.reduce_scatter.start avg "fc1"(%g) ...
    ```
  }];
}

def AssignStreams : Fsdp_ModulePass<"fsdp-assign-streams"> {
  let summary = "order the transfers' streams after the computation they need";
  let description = [{
    A transfer begins after all computation before it: `record compute` and
    `await` on its stream stand in front of its start, unless the stream has
    already waited for the last computation. Waits are on the compute stream, so
    every reuse of memory is ordered through it and nothing else is needed.

    ```mlir
    %e = fsdp.record compute
    fsdp.await %e on gather
    %f = fsdp.all_gather.start "fc1"(%w) ...
    ```
  }];
}

def PlanMemory : Fsdp_ModulePass<"fsdp-plan-memory"> {
  let summary = "give every tensor its address";
  let description = [{
    States come first, at the same addresses for all programs of the module;
    above them the programs' transient tensors are packed by their lifetimes, so
    that the arena is as large as its largest program needs. Sets `at` on
    `fsdp.state`, `fsdp.at` on inputs and ops, and `fsdp.memory` on the module:
    bytes a rank, by kind at the moment of the highest use.

    A gathered tensor and a gradient that will be scattered get room for their
    padding rows. An optimizer's results lie at their states' addresses, and so
    does a state's new value that an elementwise op computes last; other new
    values get memory of their own and are copied at the end.
  }];
  let options = [
    Option<"sizeLimit", "size-limit", "unsigned", "50000",
           "up to how many tensors the slower packing by size is tried, too">
  ];
}

def VerifyPlanned : Fsdp_ModulePass<"fsdp-verify-planned"> {
  let summary = "check a plan from the IR alone";
  let description = [{
    The contract of the plan stage: every tensor has an address inside the arena;
    tensors that live at the same time do not overlap; updates in place are at
    their state's address; no op reads a value that was overwritten; padding rows
    are zeroed before they are reduced; a transfer starts after all computation
    that touched its memory; `fsdp.memory` states the arena's size.

    Recomputes lifetimes itself and trusts nothing that the planner thought.
  }];
}

#endif // FSDP_PASSES_TD
