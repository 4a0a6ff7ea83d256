//===- Passes.td - From a captured graph to shards ---------*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_SHARD_PASSES_TD
#define FSDP_PASSES_SHARD_PASSES_TD

include "passes/PassBase.td"

def Annotate : Fsdp_ModulePass<"fsdp-annotate"> {
  let summary = "tell the module how it is to be compiled and run";
  let description = [{
    Puts settings on the module, each under its own name and in the place of what
    stands there: `#fsdp.shards`, `#fsdp.buckets`, `#fsdp.step`, `#fsdp.optimizer`,
    `#fsdp.loss_scale`, which passes read, and those of the run. With a config
    `fsdp-opt` has done that itself; this is for programs without one. `with` has the
    settings in braces, without `#fsdp.` in front of each.

    Input: `module {`

    Output, for `with={step<micro_batches = 4>, shards<world = 2>}`:

    ```mlir
    module attributes {fsdp.shards = #fsdp.shards<world = 2>,
                       fsdp.step = #fsdp.step<micro_batches = 4>} {
    ```

    Needs: nothing.
  }];
  let options = [
    Option<"with", "with", "std::string", "\"\"", "the settings">
  ];
}

def AddValidation : Fsdp_ModulePass<"fsdp-add-validation"> {
  let summary = "add a program that computes the loss and changes nothing";
  let description = [{
    Clones each captured program to train, `@"train/step"`, as `@"eval/step"`,
    keeps the loss of its results and erases what that does not need: the
    backward pass, and the new values of buffers and of the random state. The
    clone has the same arguments. It goes through all stages beside the original
    as a program for inference does, over the same states at the same addresses.
    Without `#fsdp.validation` on the module there is nothing to add. Noise that
    capture added to embeddings (`#fsdp.noise`) is left out.

    Input:

    ```mlir
    func.func @"train/step"(%w: …, %mean: …, %x: …) -> (
        tensor<f32> {fsdp.output = "loss"}, tensor<8xf32> {fsdp.state = @mean},
        tensor<8x8xf32> {fsdp.gradient = @w})
    ```

    Output, behind it:

    ```mlir
    func.func @"eval/step"(%w: …, %mean: …, %x: …) -> (
        tensor<f32> {fsdp.output = "loss"})
    ```

    Needs: a captured program. Leaves: captured programs.
  }];
}

def FindAdapters : Fsdp_ModulePass<"fsdp-find-adapters"> {
  let summary = "find matrices that together add to a frozen one";
  let description = [{
    A frozen matrix and the low-rank adapter (LoRA) beside it, `base(x) + s * up(down(x))`,
    are found by what forward of the programs that train computes, whatever the
    modules are called: a product with the frozen matrix, or its transpose, and two in
    a row with transposes of trained ones, whose sum is read. Between them may be
    views that keep the order of elements, casts, copies and factors that are
    numbers, and dropout in front of `down`. Both read one value, and what both make is read
    for that sum alone.

    Each is an element of the module's `fsdp.adapters`, from which the artifact has what
    `fsdp-run --export-merged` adds up. A base that two adapters are added to, and matrices that
    forward also reads otherwise, are left out: after a merge the program without
    adapters would compute something else. Where capture put adapters in
    (`fsdp.adapter_settings`), it has said which there are, and they stay as they are.

    Input:

    ```mlir
    %y = aten.mm(%x, %wt) : …
    %h = aten.mm(%x, %at) : …
    %d = aten.mm(%h, %bt) : …
    %s = aten.mul.Scalar(%d, other = 2.0) : …
    %z = aten.add.Tensor(%y, %s) : …
    ```

    Output, beside it:

    ```mlir
    module attributes {fsdp.adapters = [
        #fsdp.adapter<base = @w, down = @a, up = @b, scale = 2.0>]}
    ```

    Needs: captured programs. Must run before `fsdp-quantize-bases`, behind which products
    read what bytes stand for. Leaves: the programs as they are.
  }];
}

def SnapshotReference : Fsdp_ModulePass<"fsdp-snapshot-reference"> {
  let summary = "keep a copy of the captured program to compare with";
  let description = [{
    Clones the captured function `@"train/step"` as `@"reference/train/step"`, and
    `@"eval/step"` as `@"reference/eval/step"`, marked as references
    (`#fsdp.program`). All other passes leave those alone;
    `fsdp-verify-equivalent` compares with them.

    Needs: a captured program. Leaves: the program and its reference.
  }];
}

def DropReference : Fsdp_ModulePass<"fsdp-drop-reference"> {
  let summary = "erase the copy of the captured program";
  let description = [{
    The opposite of `fsdp-snapshot-reference`. What operators on parts were, which only
    the comparison reads, goes as well.
  }];
}

def SetSeed : Fsdp_ModulePass<"fsdp-set-seed"> {
  let summary = "begin random sequences at the config's seed";
  let description = [{
    Gives the state that draws start from its first value, (seed, 0), with the seed
    that the module says in `fsdp.seed`, or 0. Programs that draw nothing have none.

    Input: `fsdp.state random @"random/state" : tensor<2xi64>`

    Output, for `fsdp.seed = 7`:

    ```mlir
    fsdp.state random @"random/state" : tensor<2xi64> init dense<[7, 0]> : tensor<2xi64>
    ```
  }];
}

def ShardParameters : Fsdp_ModulePass<"fsdp-shard-parameters"> {
  let summary = "let each rank hold its rows of every parameter";
  let description = [{
    Puts `fsdp.mesh = #fsdp.mesh<shard = N>` on the module, with the `world` of
    `#fsdp.shards` as N. Parameters, frozen
    ones too, become shards on dim 0 (ceil(d / N) rows a rank, padded with
    zeros); their uses see an `all_gather`, their gradients go through
    `reduce_scatter avg … of @p`. Buffers, constants and inputs stay each rank's
    own. With one rank nothing is cut and nothing exchanged.

    With R replicas (HSDP) the mesh is `<replicate = R, shard = world / R>`, and
    each reduced shard goes through `all_reduce avg … over #replicate of @p`.

    With `tp` ranks of `#fsdp.parallel` the mesh ends with `tp`, whose ranks are
    adjacent and read the same data: `<replicate = R, shard = world / (R * tp), tp = tp>`.
    What is split over it is cut again, and no gradient is reduced over it.

    Scalars and the parameters that `ignore` names stay whole on every rank; their
    gradients go through one `all_reduce avg … of @p` over all ranks that read
    different data. With
    `keep_ignored_local` those of the ignored ones go through nothing, and their
    states are marked `local`.

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

    `dims` are rules such as `#fsdp.dim_rule<params = ["*.weight"], dim = 1>`,
    patterns of names with the dim to cut along; the last one that matches counts.

    Needs: a captured program. Leaves: a program on shards, no longer captured.
  }];
}

def DivideGradients : Fsdp_ModulePass<"fsdp-divide-gradients"> {
  let summary = "choose by what gradients are divided, and where";
  let description = [{
    Gradients are averaged over all ranks, which `avg` does at each reduction.
    Three things ask for sums with divisors of their own, as FSDP2 makes them (the
    last two in `#fsdp.step`):
    * gradients reduced in f16, whose sum overflows before it is divided: the
      operands of the first reduction are divided by a power of two near the
      root of the divisor, the results of the last one by the rest;
    * `divide_factor`: a divisor of the user's instead of the number of ranks, which
      divides the operands of the first reduction. It is kept on the module as
      `fsdp.gradient_divide_factor`. If it is the size of that reduction's group,
      this averages and the next ones sum;
    * `force_sum`: reductions are sums, whose last result is divided.

    With `divide_in_optimizer` reductions are sums that nobody divides: the module says
    in `fsdp.optimizer_divisor` by what the optimizer does it, which reads the
    gradients anyway. It takes one divisor for all of them, so they are divided
    as above where a gradient is reduced or kept in f16, or is each rank's own.

    With `grains` reductions are sums in the order of the grains' tree, the last of
    which divides by their number.

    Input, for four ranks:

    ```mlir
    %s = fsdp.reduce_scatter avg %g dim 0 over #shard of @w
        : tensor<13x17xf16> -> tensor<4x17xf16>
    ```

    Output:

    ```mlir
    %s = fsdp.reduce_scatter sum %g pre 2.0 post 2.0 dim 0 over #shard of @w
        : tensor<13x17xf16> -> tensor<4x17xf16>
    ```

    Needs: averaging reductions in the types that they are to have
    (`fsdp-move-casts-to-shards`). Leaves: reductions that divide by the same
    number in all, together with what the module leaves to the optimizer.
  }];
}

def InsertMetrics : Fsdp_ModulePass<"fsdp-insert-metrics"> {
  let summary = "average outputs that are numbers over the ranks";
  let description = [{
    For each output that is a floating-point tensor without dims a result is
    added that is its mean over the ranks, in f32, for the run's metrics. The
    output itself stays each rank's own. The loss of a training program is left
    to `fsdp-insert-optimizer`. With `grains` (`#fsdp.step`) it is the mean over them.

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
      %m = fsdp.all_reduce avg %accuracy over #shard for metric : tensor<f32>
      return %accuracy, %m : tensor<f32>, tensor<f32>
    ```

    Needs: a mesh. Must run before `fsdp-insert-optimizer`, so that all metrics
    travel in one transfer.
  }];
}

def SplitMicroBatches : Fsdp_ModulePass<"fsdp-split-micro-batches"> {
  let summary = "make a step of several micro-batches";
  let description = [{
    Replaces `train/step` by the programs of a step of A `micro_batches`
    (`#fsdp.step`):
    `train/first`, `train/middle` (only if A > 2; it runs A - 2 times) and
    `train/last`. Gradients are summed in states of role `gradient`; the first
    program leaves its own there, so that nobody zeroes them. The last program
    adds its own (`fsdp.accumulate … divide A`) and goes on with the mean, so
    that norm, clipping and optimizer see gradients that are averaged over ranks
    and micro-batches. The loss, and each metric, is summed in the same way in
    front of its exchange, which only the last program makes. New values of
    buffers and random states stay in all programs.

    | `sync`            | summed                              | reductions     |
    |-------------------|-------------------------------------|----------------|
    | `each`            | what they yield: shards             | in all programs |
    | `last`            | what they read: whole gradients     | in the last one |
    | `all_reduce_last` | what the first all-reduce reads     | reduce-scatters in all, all-reduces in the last |

    With `grains` the sums are those of a tree: a state holds as many partial sums side
    by side as are open at a time, to which all programs add (`fsdp.accumulate …
    tree`); the last goes on with the sum of all, which the reductions behind it
    divide. What is drawn next changes in the last program alone: a draw is a function
    of the grain.

    Without an all-reduce of gradients `all_reduce_last` is `each`. With one
    micro-batch, and for inference, nothing changes.

    Input, for two:

    ```mlir
    func.func @"train/step"(%w: tensor<7x17xf32> {fsdp.state = @w}, …)
        -> (tensor<f32> {fsdp.output = "loss"},
            tensor<7x17xf32> {fsdp.gradient = @w}) {
      …
      %s = fsdp.reduce_scatter avg %g dim 0 over #shard of @w
      return %loss, %s : …
    ```

    Output:

    ```mlir
    fsdp.state scalar @"loss/sum" : tensor<f32>
    fsdp.state gradient @"w/gradient" of @w : tensor<13x17xf32> sharded <dim 0 over #shard>
    func.func @"train/first"(%w: … {fsdp.state = @w},
                             %ls: tensor<f32> {fsdp.state = @"loss/sum"},
                             %gs: tensor<7x17xf32> {fsdp.state = @"w/gradient"}, …)
        -> (tensor<f32> {fsdp.output = "loss", fsdp.state = @"loss/sum"},
            tensor<7x17xf32> {fsdp.state = @"w/gradient"}) {
      …
      return %loss, %s : …
    func.func @"train/last"(…)
        -> (tensor<f32> {fsdp.output = "loss"},
            tensor<7x17xf32> {fsdp.gradient = @w}) {
      …
      %l = fsdp.accumulate %loss into %ls divide 2 : tensor<f32>, tensor<f32>
      %m = fsdp.accumulate %s into %gs of @w divide 2 : tensor<7x17xf32>, tensor<7x17xf32>
      return %l, %m : …
    ```

    Needs: a sharded program with gradients as results; must run behind
    `fsdp-insert-metrics` and in front of `fsdp-insert-optimizer`. Leaves
    `fsdp.micro_batches` on the module.
  }];
}

def InsertOptimizer : Fsdp_ModulePass<"fsdp-insert-optimizer"> {
  let summary = "turn gradients into new parameters, on shards";
  let description = [{
    Adds the states of `#fsdp.optimizer` to the module and to the program, replaces the
    results that are gradients by new parameters and states, and adds the
    metrics: the loss as mean over ranks and the global norm of the gradients
    before clipping, which travel in one all-reduce. Leaves `#fsdp.optimizer` on the module also
    where its absence stood for the defaults.

    The norm is that of all gradients as one vector, of order `norm_order`: of
    order 2 the root of the sum of squares of all ranks' shards, of order 1 the
    sum of absolute values, of order inf the greatest absolute value. Padding
    rows are zero and do not count. Gradients that several ranks hold alike
    (of replicated parameters, of replicas, or along `tp`) count once: a rank's
    term is the sum over its gradients, each divided by the number of ranks of a
    replica that hold it, and the norm comes from the mean of all ranks' terms
    times the ranks of a replica. Half-precision gradients are summed in f32. The greatest value cannot
    travel with the loss, which is a mean: with order inf there are two scalar
    all-reduces.

    With `grains` (`#fsdp.step`) the norm of order 2 is the root of an exact sum
    (`fsdp.square_sum`) over the ranks of one replica, and the loss the mean over the
    grains.

    With `max_grad_norm` c the gradients are divided by
    max((norm + 1e-6) / c, 1), which is torch.nn.utils.clip_grad_norm_ with one
    rounding less (its coefficient is the reciprocal).

    With `#fsdp.on_nonfinite<skip>` no update is made where the loss or the norm is not a
    finite number, on any rank, since all have both: the optimizers' `found_inf`
    is 1 then, and such a step does not count as one of theirs.

    Where the captured loss is multiplied by the state `loss/scale`, that divides
    norm and gradients again. With an `interval` of `#fsdp.loss_scale` it changes as that of
    torch.amp.GradScaler: cut where an update is left out, grown after so many
    updates in a row, which the state `loss/growth` counts; what a step had is its
    metric `loss_scale`.

    With `#fsdp.ema` each trained parameter has a state `NAME/ema` that begins as it
    (`#fsdp.init<owner>`) and goes on behind its update as that attribute says
    (`aten.lerp`): how much of the new parameter it takes is one number for all, 0 where
    no update was made.

    With `#fsdp.reported_norms` there is a vector of norms of order 2 beside that, of
    gradients, weights or updates, by parameter or module (`fsdp.norms_of`): sums of
    squares travel in one all-reduce. Norms of single gradients are then taken once,
    also for the norm of all. For norms of updates old parameters are copied in f32 in
    front of them.

    What reductions leave to it (`fsdp.optimizer_divisor`) divides the norm, and
    the gradients together with the clipping: in the optimizers' `grad_scale`.

    Moments are stored as `state_dtype` says, and called after it: codes in blocks of
    256 elements of the model's tensor have the states `w/exp_avg_int8` and, with a
    number a block, `w/exp_avg_int8_scale`. Where ranks share blocks, all have the
    scales of the whole tensor, and `fsdp.block_maxima` and an all-reduce find the
    new ones before the update. Tensors of less than 4096 elements have moments in
    f32 then. With `stochastic_rounding` updates of parameters in bf16 have the seed
    of the module as `rounding`.

    Parameters with a `group` (`fsdp-assign-groups`) have that group's settings. A
    group with a learning rate of its own has the state `optimizer/lr/N`, with N its
    number from 1.

    There is one optimizer op for each group and element type, at the end. With
    `in_backward` of `#fsdp.optimizer`, and where no update waits for the norm (none
    clips, leaves updates out or scales the loss), there is one for each bucket, too.
    It stands where the gradients of its bucket and of the one that is ready next are
    computed, so that its reduction has that time, and where nothing reads the old
    parameters any more. The norms of its gradients are taken in front of it, since
    their memory is free from then on, and summed up at the end in the same order.

    Programs for inference (`infer/…`) stay as they are.

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
    fsdp.state learning_rate @"optimizer/lr" : tensor<f32> init 1.000000e-03 : f32
    func.func @"train/step"(%w: tensor<7x17xf32> {fsdp.state = @w},
                            %lr: tensor<f32> {fsdp.state = @"optimizer/lr"}, …)
        -> (tensor<f32> {fsdp.output = "loss"},
            tensor<f32> {fsdp.output = "grad_norm"},
            tensor<7x17xf32> {fsdp.state = @w}) {
      …
      %l = fsdp.all_reduce avg %loss over #shard for metric : tensor<f32>
      %a = fsdp.all_reduce avg %sum_of_squares over #shard for metric : tensor<f32>
      …
      %new = fsdp.update sgd params(%w) grads(%s) momentum_buffers() lr %lr …
      return %l, %norm, %new : …
    ```

    Needs: gradients as results (`fsdp.gradient`). Leaves: a whole step.
  }];
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

#endif // FSDP_PASSES_SHARD_PASSES_TD
