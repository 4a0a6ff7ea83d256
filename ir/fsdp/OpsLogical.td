//===- OpsLogical.td - Sharding without time ---------------------*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_OPS_LOGICAL_TD
#define FSDP_OPS_LOGICAL_TD

include "OpBase.td"

def Fsdp_ConstantOp : Fsdp_Op<"constant", [Pure]> {
  let summary = "a tensor that the program itself holds";
  let description = [{
    For tensors that the captured model computes with and that no record of the
    model file holds. `wrapped` marks a Python number that LibTorch turned into
    a 0-d tensor: it does not take part in type promotion as a tensor would.

    Example: `%c = fsdp.constant wrapped dense<0.5> : tensor<f64>`

    Constraint CO-1: the result has the value's type; a wrapped number is 0-d.
  }];
  let arguments = (ins ElementsAttr:$value, UnitAttr:$wrapped);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    custom<ConstantValue>($value, type($result), $wrapped) attr-dict
  }];
  let hasVerifier = 1;
}

class Fsdp_SplitOp<string mnemonic> : Fsdp_Op<mnemonic, [Pure]> {
  let hasVerifier = 1;
}

def Fsdp_AllGatherOp : Fsdp_SplitOp<"all_gather"> {
  let summary = "put the shards of a group together";
  let description = [{
    The full tensor, from the rows that each rank of the group holds. Exists
    from the shard stage until buckets are formed.

    Example:

    ```mlir
    %full = fsdp.all_gather %w dim 0 over #shard
        : tensor<7x17xf32> -> tensor<13x17xf32>
    ```

    Constraints:
    * AG-1: shard and full tensor have one element type;
    * AG-2: the shard has ceil(full / size) rows on `dim` and the full tensor's
      sizes elsewhere.
  }];
  let arguments = (ins AnyRankedTensor:$shard, I64Attr:$dim, Fsdp_Group:$group);
  let results = (outs AnyRankedTensor:$full);
  let assemblyFormat = [{
    $shard `dim` $dim `over` $group attr-dict `:` type($shard) `->` type($full)
  }];
  let hasFolder = 1;
}

def Fsdp_ShardOp : Fsdp_SplitOp<"shard"> {
  let summary = "keep this rank's rows of a full tensor, without communication";
  let description = [{
    Rows beyond the end are zero. Constraints AG-1 and AG-2 of `all_gather`.

    Example:

    ```mlir
    %s = fsdp.shard %full dim 0 over #inner
        : tensor<13x17xf32> -> tensor<7x17xf32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$full, I64Attr:$dim, Fsdp_Group:$group);
  let results = (outs AnyRankedTensor:$shard);
  let assemblyFormat = [{
    $full `dim` $dim `over` $group attr-dict `:` type($full) `->` type($shard)
  }];
}

def Fsdp_ReduceScatterOp : Fsdp_SplitOp<"reduce_scatter"> {
  let summary = "combine a tensor over a group; each rank keeps its rows";
  let description = [{
    `of @p` marks the operand as *the* gradient of parameter p: erasing the
    sharding, clipping and reports hang on it. Constraints AG-1 and AG-2.

    Example:

    ```mlir
    %s = fsdp.reduce_scatter avg %g dim 0 over #shard of @fc1.weight
        : tensor<13x17xf32> -> tensor<7x17xf32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$full, Fsdp_ReductionAttr:$reduction,
                       I64Attr:$dim, Fsdp_Group:$group,
                       OptionalAttr<FlatSymbolRefAttr>:$of);
  let results = (outs AnyRankedTensor:$shard);
  let assemblyFormat = [{
    `` $reduction $full `dim` $dim `over` $group (`of` $of^)? attr-dict
    `:` type($full) `->` type($shard)
  }];
}

def Fsdp_AllReduceOp
    : Fsdp_Op<"all_reduce", [Pure, AllTypesMatch<["input", "result"]>]> {
  let summary = "combine a tensor over a group; each rank keeps all of it";
  let description = [{
    Example:

    ```mlir
    %n = fsdp.all_reduce avg %loss over #shard : tensor<f32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$input, Fsdp_ReductionAttr:$reduction,
                       Fsdp_Group:$group,
                       OptionalAttr<FlatSymbolRefAttr>:$of);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    `` $reduction $input `over` $group (`of` $of^)? attr-dict `:` type($input)
  }];
}

def Fsdp_ReplayOp : Fsdp_Op<"replay",
    [AllTypesMatch<["input", "result"]>, Fsdp_Scheduled]> {
  let summary = "begin a second life of a value: gather or compute again from here";
  let description = [{
    The identity, with an effect: CSE cannot merge two replays of one value, nor
    anything computed from them, so a second gather (reshard after forward) or a
    recomputation survives it.

    Example:

    ```mlir
    %again = fsdp.replay %w : tensor<7x17xf32>
    %full2 = fsdp.all_gather %again dim 0 over #shard
        : tensor<7x17xf32> -> tensor<13x17xf32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$input);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input)";
}

def Fsdp_AccumulateOp
    : Fsdp_Op<"accumulate", [Pure, AllTypesMatch<["into", "result"]>]> {
  let summary = "add a gradient to its running sum";
  let description = [{
    May widen the element type. The planner does it in place.

    Example:

    ```mlir
    %n = fsdp.accumulate %g into %acc of @w : tensor<13xbf16>, tensor<13xf32>
    ```

    Constraint AC-1: gradient and sum have one shape.
  }];
  let arguments = (ins AnyRankedTensor:$into, AnyRankedTensor:$gradient,
                       OptionalAttr<FlatSymbolRefAttr>:$of);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    $gradient `into` $into (`of` $of^)? attr-dict
    `:` type($gradient) `,` type($into)
  }];
  let hasVerifier = 1;
}

#endif // FSDP_OPS_LOGICAL_TD
