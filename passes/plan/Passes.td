//===- Passes.td - From a schedule to addresses ----------*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_PLAN_PASSES_TD
#define FSDP_PASSES_PLAN_PASSES_TD

include "passes/PassBase.td"

def CopyBuckets : Fsdp_ModulePass<"fsdp-copy-buckets"> {
  let summary = "move buckets as FSDP2 does, by copies into one tensor";
  let description = [{
    Of buckets whose parameters are `copied`, each transfer moves one tensor
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
    %f = fsdp.start all_gather "b"(%w, %v) dims [0, 0] over #shard on gather
        : tensor<7x17xf32>, tensor<7xf32> -> …
    …
    %fw, %fv = fsdp.wait %f : …
    …
    %s = fsdp.start reduce_scatter avg "b"(%gw, %gv) dims [0, 0] over #shard on reduce
        of [@w, @v] : …
    …
    %sw, %sv = fsdp.wait %s : … -> tensor<7x17xf32>, tensor<7xf32>
    ```

    Output:

    ```mlir
    %p = fsdp.pack(%w, %v) at [0, 119] : … -> tensor<126xf32>
    %f = fsdp.start all_gather "b"(%p) dims [0] over #shard on gather : …
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
    %s = fsdp.start reduce_scatter avg "b"(%g) dims [0] over #shard on reduce : …
    …
    %r = fsdp.wait %s : … -> tensor<1x126xf32>
    %sw = aten.as_strided(%r, size = [7, 17], stride = [17, 1], storage_offset = 0) : …
    %sv = aten.as_strided(%r, size = [7], stride = [1], storage_offset = 119) : …
    ```

    What is copied has memory and is no matter of the program: sharding,
    scheduling and their checks see the members, as in rows. `fsdp.copied` on a
    start is the number of members in its tensor.

    Needs: starts, waits and frees in their final order.
  }];
}

def LowerLookups : Fsdp_ModulePass<"fsdp-lower-lookups"> {
  let summary = "look up the rows that a rank has";
  let description = [{
    An embedding with `fsdp.rows` has a part of the rows that its indices are of. Those
    of other ranks' rows it looks up as its first row, and makes zeros of them, so that
    the ranks' results add up; its gradient passes over them. An index of no row at all
    is left to the first or last rank as it is, whose kernel refuses it.

    Input, of rank r of 2:

    ```mlir
    %e = aten.embedding(%w, %x) {fsdp.rows = #fsdp.placed<shard dim 0 over #tp>}
        : (tensor<16x4xf32>, tensor<2x8xi64>) -> tensor<2x8x4xf32>
    ```

    Output:

    ```mlir
    %first = fsdp.select_rows %c dim 0 from [0, 1] over #tp : tensor<2xi64> -> tensor<1xi64>
    …
    %own = aten.logical_and(%ge, %le) : …
    %own_row = aten.sub.Tensor(%x, %first) : …
    %row = aten.where.self(%own, %own_row, %zero) : …
    %all = aten.embedding(%w, %row) : …
    %e = aten.where.self(%own_view, %all, %zeros) : …
    ```

    Needs: a scheduled program. Leaves: no `fsdp.rows`.
  }];
}

def LowerParts : Fsdp_ModulePass<"fsdp-lower-parts"> {
  let summary = "take parts in blocks, and balanced ones, by rows";
  let description = [{
    `fsdp.shard` of such parts becomes one of a view that has the blocks as a dim of
    its own, or for balanced parts two selections behind each other.

    Input:

    ```mlir
    %s = fsdp.shard %labels dim 0 in <blocks = 2> over #cp for step : tensor<32xi64> -> tensor<16xi64>
    ```

    Output:

    ```mlir
    %v = aten.view(%labels, size = [2, 16]) : (tensor<32xi64>) -> tensor<2x16xi64>
    %p = fsdp.shard %v dim 1 over #cp for step : tensor<2x16xi64> -> tensor<2x8xi64>
    %s = aten.view(%p, size = [16]) : (tensor<2x8xi64>) -> tensor<16xi64>
    ```

    Needs: a scheduled program. Leaves: no `fsdp.shard` with `in`.
  }];
}

def LowerShardDims : Fsdp_ModulePass<"fsdp-lower-shard-dims"> {
  let summary = "move what is cut along another dim than 0 by its transpose";
  let description = [{
    A transfer moves rows. A member that is cut along dim d travels with that
    dim in front: its operand is a permuted view (which
    `fsdp-materialize-storages` copies), and what arrives is permuted back and
    copied. Members along dim 0 stay as they are. Parts in blocks travel as views that
    have the blocks as a dim of their own; what arrives of balanced parts, each rank's
    two pieces behind each other, is brought into order, and brought out of it in front
    of a scatter.

    Input:

    ```mlir
    %f = fsdp.start all_gather "a"(%w) dims [1] over #shard on gather
        : tensor<4x3xf32> -> !fsdp.future<tensor<4x6xf32>>
    %g = fsdp.wait %f : …
    ```

    Output:

    ```mlir
    %p = aten.permute(%w, dims = [1, 0]) : … -> tensor<3x4xf32, #aten.strides<1, 3>>
    %f = fsdp.start all_gather "a"(%p) dims [0] over #shard on gather
        : … -> !fsdp.future<tensor<6x4xf32>>
    %r = fsdp.wait %f : …
    %v = aten.permute(%r, dims = [1, 0]) : …
    %g = aten.clone(%v, memory_format = "contiguous") : … -> tensor<4x6xf32>
    ```

    Needs a scheduled program. Leaves transfers of one part a rank along dim 0 alone.
  }];
}

def LowerEncodings : Fsdp_ModulePass<"fsdp-lower-encodings"> {
  let summary = "compute narrow types by operators of LibTorch";
  let description = [{
    Behind all that asks what is encoded, and by what scale. A scale's inverse is
    computed where the scale is.

    Input:

    ```mlir
    %m = fsdp.amax %g : tensor<12xf32> -> tensor<f32>
    %s = fsdp.scale %m to f8E4M3FN least 1.0e-12 : tensor<f32>
    %c = fsdp.encode %g by %s : tensor<12xf32>, tensor<f32> -> tensor<12xf8E4M3FN>
    ```

    Output:

    ```mlir
    %m = aten.linalg_vector_norm(%g, ord = 0x7FF0000000000000 : f64) : (tensor<12xf32>) -> tensor<f32>
    %a = aten.clamp_min(%m, min = 1.0e-12) : (tensor<f32>) -> tensor<f32>
    %l = fsdp.constant dense<4.48e+02> : tensor<f32>
    %s = aten.div.Tensor(%l, %a) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %p = aten.mul.Tensor(%g, %s) : (tensor<12xf32>, tensor<f32>) -> tensor<12xf32>
    %c = aten._to_copy(%p, dtype = f8E4M3FN) : (tensor<12xf32>) -> tensor<12xf8E4M3FN>
    ```

    Needs: a scheduled program. Leaves: no `fsdp.amax`, `fsdp.scale`, `fsdp.encode`
    and `fsdp.decode`.
  }];
}

def LowerSummands : Fsdp_ModulePass<"fsdp-lower-summands"> {
  let summary = "make summands of what the first rank of a group adds";
  let description = [{
    A tensor with one row in front is cut into rows of the group's ranks, of which the
    first alone has one; the others' are zero.

    Input:

    ```mlir
    %s = fsdp.summand %bias over #tp : tensor<64xf32>
    ```

    Output:

    ```mlir
    %row = aten.view(%bias, size = [1, 64]) : (tensor<64xf32>) -> tensor<1x64xf32>
    %own = fsdp.shard %row dim 0 over #tp for step : tensor<1x64xf32> -> tensor<1x64xf32>
    %s = aten.view(%own, size = [64]) : (tensor<1x64xf32>) -> tensor<64xf32>
    ```

    Needs: a scheduled program. Leaves: no `fsdp.summand`.
  }];
}

def LowerWires : Fsdp_ModulePass<"fsdp-lower-wires"> {
  let summary = "exchange the parts of sums that are wider than what travels";
  let description = [{
    A reduction that is wider than its operands (`fsdp-narrow-wires`), for devices whose
    collectives sum in the type that travels: ranks exchange their parts in that type, and
    each adds up what it got, in f32 and in the ranks' order. As many bytes travel, and
    the sums have the same bits, as where the collective itself widens; what is received
    is as large as what is sent, until it is added up at the wait.

    Input:

    ```mlir
    %reduce.fc1 = fsdp.start reduce_scatter avg "fc1"(%h) dims [0] over #shard on reduce
        of [@fc1.weight] : tensor<13x17xbf16> -> !fsdp.future<tensor<7x17xf32>>
    %s = fsdp.wait %reduce.fc1 : !fsdp.future<tensor<7x17xf32>> -> tensor<7x17xf32>
    ```

    Output, on 2 ranks:

    ```mlir
    %exchange.fc1 = fsdp.start all_to_all "fc1"(%h) dims [0] over #shard for gradient on reduce
        of [@fc1.weight] : tensor<13x17xbf16> -> !fsdp.future<tensor<14x17xbf16>>
    %p = fsdp.wait %exchange.fc1 : !fsdp.future<tensor<14x17xbf16>> -> tensor<14x17xbf16>
    %s = fsdp.sum_parts %p post 2.0 : tensor<14x17xbf16> -> tensor<7x17xf32>
    ```

    Needs: a scheduled program whose transfers move rows of dim 0
    (`fsdp-lower-shard-dims`). Leaves: no reduction that is wider than its operands,
    where the device's are not.
  }];
  let options = [
    Option<"everywhere", "everywhere", "bool", "false",
           "also where the device's collectives sum in a wider type">
  ];
}

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
    * an operand of `copy.start` that is not contiguous;
    * a result of the program that lies in a state (other than the one it is
      bound to), which the optimizer overwrites before the result is taken.

    Needs a scheduled program. Programs of well-behaved models stay as they are.

    ```mlir
    %f = fsdp.start reduce_scatter avg "a"(%view) ...
    ```
    becomes
    ```mlir
    %own = aten.clone(%view, memory_format = "contiguous") ...
    %f = fsdp.start reduce_scatter avg "a"(%own) ...
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
    %f = fsdp.start reduce_scatter avg "fc1"(%g) ...
    ```
  }];
}

def PlanMemory : Fsdp_ModulePass<"fsdp-plan-memory"> {
  let summary = "give every tensor its address";
  let description = [{
    Each of a rank's memories is planned for itself; `fsdp.memory` says of the host's
    in its entry `host`, where anything lies there. States come first, at the same addresses for all programs of the module;
    above them the programs' transient tensors are packed by their lifetimes, so
    that the arena is as large as its largest program needs. Several greedy
    packings are tried, and where all stay above what is alive at once, a search
    that is bounded by its steps, not by time: addresses depend on the program
    alone. Sets `at` on
    `fsdp.state`, `fsdp.at` on inputs and ops, and `fsdp.memory` on the module:
    bytes a rank, by kind at the moment of the highest use.

    Each program is packed twice: as it is, and with the results of elementwise
    ops in the places of operands that die there. Where the second needs no more,
    it is taken and the program marked with `fsdp.reuse`. Between both, where there is
    `addmm`, stands the one in which products alone are added in place: `fsdp.reuse = "sums"`.

    Tensors of 8 KiB and more begin at a multiple of 128 bytes, smaller ones at
    less, down to 16.

    A gathered tensor and a gradient that will be scattered get room for their
    padding rows. An optimizer's results lie at their states' addresses, and so
    does a state's new value that an elementwise op computes last; other new
    values get memory of their own and are copied at the end.
  }];
  let options = [
    Option<"sizeLimit", "size-limit", "unsigned", "50000",
           "up to how many tensors the slower greedy packings are tried, too">,
    Option<"searchWork", "search-work", "int64_t", "60000000",
           "steps of the search for a tighter packing; 0: none">
  ];
}

def VerifyPlanned : Fsdp_ModulePass<"fsdp-verify-planned"> {
  let summary = "check a plan from the IR alone";
  let description = [{
    The contract of the plan stage: every tensor has an address inside the arena;
    tensors that live at the same time do not overlap; updates in place are at
    their state's address; no op reads a value that was overwritten; padding rows
    are zeroed before they are reduced; between a transfer's start and its wait
    nothing writes what it reads, nor touches what it writes; `fsdp.memory`
    states the arena's size.

    Recomputes lifetimes itself, by the rules that the planner goes by;
    `fsdp-verify-memory` trusts not even these.
  }];
}

def VerifyMemory : Fsdp_ModulePass<"fsdp-verify-memory"> {
  let summary = "run a plan over addresses: do reads find what was written?";
  let description = [{
    Keeps, for every byte of the arena, what was written there last. Each op must
    find the values that it reads, and must leave alone what somebody reads later:
    states and inputs until the program's end, operands and results of a transfer
    until its wait. Nothing may lie over an operand but what an elementwise op
    makes of it, and new values of optimizers, all-reduces and sums.

    Knows what ops do to memory from their schemas and descriptions, and shares no
    rule with the planner.

    ```mlir
    %a = aten.relu(%x) {fsdp.at = array<i64: 128>} : …
    %b = aten.cumsum(%a, dim = 0) {fsdp.at = array<i64: 128>} : …  // refused
    ```
  }];
}

#endif // FSDP_PASSES_PLAN_PASSES_TD
