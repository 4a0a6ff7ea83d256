//===- Buckets.td - What moves together, and when it is there *- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_SHARD_BUCKETS_TD
#define FSDP_PASSES_SHARD_BUCKETS_TD

include "passes/PassBase.td"

def AssignBuckets : Fsdp_ModulePass<"fsdp-assign-buckets"> {
  let summary = "decide which parameters are moved together";
  let description = [{
    Writes `bucket` on every parameter, frozen ones too, as `#fsdp.buckets` says.
    Buckets that are `named` come first: each takes the parameters whose names, or a
    module's that holds them, one of its shell patterns matches; of several the first
    one counts, and of a tied parameter any name does. Of the rest a `policy` chooses
    modules of the model; a parameter
    belongs to the innermost chosen module that contains all its names, and to
    the bucket `root` if there is none. Whatever the bucket, its members move in
    the order of the state table, which is that of their registration.

    | policy    | chosen modules                                            |
    |-----------|-----------------------------------------------------------|
    | `blocks`  | outermost repeated blocks: siblings with numbers as names and one class, at least two, that hold parameters |
    | `classes` | those whose class is listed (TRANSFORMER_BASED_WRAP)        |
    | `size`    | those with at least `min_params` parameters that no chosen module inside holds (SIZE_BASED_WRAP) |
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
}

def AssignGroups : Fsdp_ModulePass<"fsdp-assign-groups"> {
  let summary = "decide which parameters have settings of their own";
  let description = [{
    Writes `group` on the parameters that a group of `#fsdp.optimizer` takes, frozen
    ones too: its number, from 1. A pattern is a shell pattern of names (`*` stands
    for any characters). The last group that matches a parameter counts; the others'
    settings do not. A tied parameter is matched by any of its names; groups that
    differ and match different names of it are an error, unless one of them matches
    all that the last one does; and so is a pattern that matches no parameter.

    Input:

    ```mlir
    module attributes {fsdp.optimizer = #fsdp.optimizer<
        groups = [#fsdp.param_group<params = ["*.bias"], numbers = {weight_decay = 0.000000e+00}>]>} {
      fsdp.state parameter @fc.weight : tensor<8x8xf32>
      fsdp.state parameter @fc.bias : tensor<8xf32>
    ```

    Output:

    ```mlir
      fsdp.state parameter @fc.weight : tensor<8x8xf32>
      fsdp.state parameter @fc.bias : tensor<8xf32> group 1
    ```

    Must run before `fsdp-flatten-buckets`, whose flat states are of one group.
  }];
}

def FlattenBuckets : Fsdp_ModulePass<"fsdp-flatten-buckets"> {
  let summary = "let one flat state take the place of a bucket's parameters";
  let description = [{
    The parameters of a bucket become members of one flat state, which the ranks
    cut into equal parts without regard to rows: one gather, whose result holds
    every member as a view; one reduction of the members' gradients, which lie
    side by side (`fsdp.pack`); one update.

    Members begin at multiples of 128 bytes, and so do the parts, unless that
    would make ranks exchange more than rows would: then at multiples of the
    greatest power of two that does not. For a GPU these are at least 16 bytes,
    which its kernels and NCCL move at a time, whatever rows would exchange. Where the
    optimizer keeps codes of them (`state_dtype`), at multiples of 256 elements, which
    are its blocks; and parameters that it keeps codes of are in states apart.

    Of a flat tensor that is kept in parts between forward and backward one part is
    cut, where the last of the members' parts was.

    A flat state holds what one cast, one transfer and one update can serve.
    Parameters of a bucket that differ in role, element type, group of the
    optimizer, type of the gradient's reduction or in the types in which programs
    gather them are members of several. The `layout` of `#fsdp.buckets` says which
    become flat: `rows` leaves all as it is; `flat`
    refuses a parameter that cannot be a member. `auto` leaves such a parameter in
    rows, and puts together what costs little: not parameters between whose gradients
    those of other buckets are computed, nor such as are not gathered as often, if more
    than an eighth would be gathered in vain; what would be a state's only member
    stays in rows. `fsdp2` leaves rows, too, and says `copied` on the
    parameters, for `fsdp-copy-buckets`; all have to be cut along dim 0. What no rank cuts
    (scalars, ignored parameters) stays whole in every layout. `rules` are such as
    `#fsdp.rule<buckets = ["layers.*"], layout = flat>`, patterns of bucket names; the
    last one that matches counts.

    Input:

    ```mlir
    fsdp.state parameter @w : tensor<13x17xf32> sharded <dim 0 over #shard> bucket "b"
    fsdp.state parameter @v : tensor<13xf32> sharded <dim 0 over #shard> bucket "b"
    func.func @"train/step"(%w: tensor<7x17xf32> {fsdp.state = @w},
                            %v: tensor<7xf32> {fsdp.state = @v}, …)
        -> (…, tensor<7x17xf32> {fsdp.gradient = @w},
            tensor<7xf32> {fsdp.gradient = @v}) {
      %fw = fsdp.all_gather %w dim 0 over #shard : …
      %fv = fsdp.all_gather %v dim 0 over #shard : …
      …
      %sv = fsdp.reduce_scatter avg %gv dim 0 over #shard of @v : …
      %sw = fsdp.reduce_scatter avg %gw dim 0 over #shard of @w : …
      return …, %sw, %sv : …
    ```

    Output:

    ```mlir
    fsdp.state parameter @"b/flat" : tensor<240xf32> flat <over #shard>
        bucket "b"
    fsdp.state parameter @w : tensor<13x17xf32> part <@"b/flat" at 0> bucket "b"
    fsdp.state parameter @v : tensor<13xf32> part <@"b/flat" at 224> bucket "b"
    func.func @"train/step"(%b: tensor<120xf32> {fsdp.state = @"b/flat"}, …)
        -> (…, tensor<120xf32> {fsdp.gradient = @"b/flat"}) {
      %f = fsdp.all_gather %b dim 0 over #shard : tensor<120xf32> -> tensor<240xf32>
      %fw = fsdp.unpack %f at 0 : …
      %fv = fsdp.unpack %f at 224 : …
      …
      %p = fsdp.pack(%gw, %gv) at [0, 224] of @"b/flat" : … -> tensor<240xf32>
      %s = fsdp.reduce_scatter avg %p dim 0 over #shard of @"b/flat" : …
      return …, %s : …
    ```

    Needs: a sharded program in front of the metrics, running sums and optimizer.
  }];
}

def KeepGathered : Fsdp_ModulePass<"fsdp-keep-gathered"> {
  let summary = "gather parameters once for all micro-batches of a step";
  let description = [{
    With `keep_gathered` of `#fsdp.step`, else nothing happens: the first program of
    a step of several micro-batches leaves what it gathers
    in states of role `gathered`, with room for the padding rows; the others read
    these and gather nothing. The states are void after the last program, which
    changes the parameters.

    Input:

    ```mlir
    func.func @"train/first"(%w: tensor<7x17xf32> {fsdp.state = @w}, …) -> (…) {
      %f = fsdp.all_gather %w dim 0 over #shard : tensor<7x17xf32> -> tensor<13x17xf32>
      …
    func.func @"train/last"(%w: tensor<7x17xf32> {fsdp.state = @w}, …) -> (…) {
      %f = fsdp.all_gather %w dim 0 over #shard : tensor<7x17xf32> -> tensor<13x17xf32>
      …
    ```

    Output:

    ```mlir
    fsdp.state gathered @"w/gathered" of @w : tensor<14x17xf32>
    func.func @"train/first"(…, %k: tensor<14x17xf32> {fsdp.state = @"w/gathered"}, …)
        -> (…, tensor<14x17xf32> {fsdp.state = @"w/gathered"}) {
      %p = fsdp.all_gather %w dim 0 over #shard : tensor<7x17xf32> -> tensor<14x17xf32>
      %f = aten.slice.Tensor(%p, end = 13, start = 0) : (tensor<14x17xf32>) -> tensor<13x17xf32>
      …
    func.func @"train/last"(…, %k: tensor<14x17xf32> {fsdp.state = @"w/gathered"}, …) -> (…) {
      %f = aten.slice.Tensor(%k, end = 13, start = 0) : (tensor<14x17xf32>) -> tensor<13x17xf32>
      …
    ```

    Needs: `fsdp-split-micro-batches`, and no second gathers. Leaves programs
    for one micro-batch as they are.
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

    `reshard` of `#fsdp.buckets`: `all` buckets; `all_but_root`, as FSDP2's default;
    `none` keeps every gathered parameter until its last use in backward.

    With `reshard_ranks = k` each rank keeps, behind the last use in forward, a part over
    each k adjacent ranks (ceil(d / k) rows, `fsdp.shard`), from which backward
    gathers among these (FSDP2's integer `reshard_after_forward`; hpZ in ZeRO++,
    arXiv:2306.10209). `rules` are such as
    `#fsdp.rule<buckets = ["layers.0"], reshard = 1>`, patterns of bucket names with a
    number of ranks; the last one that matches counts.

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

    Needs: logical collectives, buckets on states (unless `reshard` is `none`).
  }];
}

#endif // FSDP_PASSES_SHARD_BUCKETS_TD
