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

class Fsdp_SplitOp<string mnemonic, list<Trait> traits>
    : Fsdp_Op<mnemonic, [Pure, ForwardingOpInterface] # traits> {
  let hasVerifier = 1;
}

def Fsdp_AllGatherOp
    : Fsdp_SplitOp<"all_gather", [CollectiveOpInterface]> {
  let summary = "put the shards of a group together";
  let description = [{
    The full tensor, from the rows that each rank of the group holds. Exists
    from the shard stage until buckets are formed. `for` says what it is for, as in
    all collectives: a gather is for a `parameter` and a reduction for a `gradient`
    where nothing is said.

    Example:

    ```mlir
    %full = fsdp.all_gather %w dim 0 over #shard
        : tensor<7x17xf32> -> tensor<13x17xf32>
    ```

    Constraints:
    * AG-1: shard and full tensor have one element type;
    * AG-2: the shard has ceil(full / size) rows on `dim` and the full tensor's
      sizes elsewhere;
    * AG-3: `in` stands at dims that its pieces divide.
  }];
  let arguments = (ins AnyRankedTensor:$shard, I64Attr:$dim, Fsdp_Group:$group,
                       OptionalAttr<Fsdp_Parts>:$parts,
                       DefaultValuedAttr<Fsdp_PurposeAttr,
                                         "::fsdp::Purpose::Parameter">:$purpose);
  let results = (outs AnyRankedTensor:$full);
  let assemblyFormat = [{
    $shard `dim` $dim (`in` $parts^)? `over` $group (`for` `` $purpose^)? attr-dict
    `:` type($shard) `->` type($full)
  }];
  let extraClassDeclaration = [{
    static ::fsdp::Collective getKind() { return ::fsdp::Collective::AllGather; }
    int64_t getRowsDim() { return getDim(); }
  }];
  let hasFolder = 1;
}

def Fsdp_ShardOp : Fsdp_SplitOp<"shard", []> {
  let summary = "keep this rank's rows of a full tensor, without communication";
  let description = [{
    Rows beyond the end are zero.

    Example:

    ```mlir
    %s = fsdp.shard %full dim 0 over #inner
        : tensor<13x17xf32> -> tensor<7x17xf32>
    ```

    Constraints AG-1, AG-2 and AG-3 of `all_gather`.
  }];
  let arguments = (ins AnyRankedTensor:$full, I64Attr:$dim, Fsdp_Group:$group,
                       OptionalAttr<Fsdp_Parts>:$parts,
                       DefaultValuedAttr<Fsdp_PurposeAttr,
                                         "::fsdp::Purpose::Parameter">:$purpose);
  let results = (outs AnyRankedTensor:$shard);
  let assemblyFormat = [{
    $full `dim` $dim (`in` $parts^)? `over` $group (`for` `` $purpose^)? attr-dict
    `:` type($full) `->` type($shard)
  }];
}

def Fsdp_SelectRowsOp : Fsdp_Op<"select_rows", [Pure]> {
  let summary = "rows of a tensor, from another one on for each rank of a group";
  let description = [{
    As many rows along `dim` as the result has, from `starts[r]` on for rank `r` of
    the group, without communication. What ranks compute of a causal mask differs by
    rank; their programs do not. Made by `fsdp-lower-context` alone.

    Example:

    ```mlir
    %k = fsdp.select_rows %keys dim 2 from [0, 24] over #cp
        : tensor<1x4x32x8xf32> -> tensor<1x4x8x8xf32>
    ```

    Constraints:
    * SR-1: one start for each rank, and all rows inside of the tensor;
    * SR-2: operand and result have one element type, and one shape but for `dim`.
  }];
  let arguments = (ins AnyRankedTensor:$input, I64Attr:$dim,
                       DenseI64ArrayAttr:$starts, Fsdp_Group:$group);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    $input `dim` $dim `from` $starts `over` $group attr-dict `:` type($input)
    `->` type($result)
  }];
  let hasVerifier = 1;
}

def Fsdp_SummandOp
    : Fsdp_Op<"summand", [Pure, AllTypesMatch<["input", "result"]>,
                          ForwardingOpInterface]> {
  let summary = "a rank's summand of a tensor that all ranks of a group have";
  let description = [{
    The tensor on the first rank of the group, zeros on the others: what is added to
    other ranks' summands, and is in the sum once. Without communication. Exists
    until `fsdp-lower-summands`.

    Example:

    ```mlir
    %s = fsdp.summand %bias over #tp : tensor<64xf32>
    ```

    Constraint SU-1: the tensor is contiguous.
  }];
  let arguments = (ins AnyRankedTensor:$input, Fsdp_Group:$group);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$input `over` $group attr-dict `:` type($input)";
  let hasVerifier = 1;
}

def Fsdp_ReduceScatterOp
    : Fsdp_SplitOp<"reduce_scatter", [ReductionOpInterface]> {
  let summary = "combine a tensor over a group; each rank keeps its rows";
  let description = [{
    `of @p` marks the operand as *the* gradient of parameter p: erasing the
    sharding, clipping and reports hang on it. A sum may divide operands by `pre`
    before and the result by `post` after it: what fp16 needs, whose sums
    overflow, and users who divide by a number of their own.

    Example:

    ```mlir
    %s = fsdp.reduce_scatter avg %g dim 0 over #shard of @fc1.weight
        : tensor<13x17xf32> -> tensor<7x17xf32>
    %t = fsdp.reduce_scatter sum %h pre 2.0 post 2.0 dim 0 over #shard
        of @fc2.weight : tensor<13x17xf16> -> tensor<4x17xf16>
    %u = fsdp.reduce_scatter avg %i dim 0 over #shard
        : tensor<13x17xbf16> -> tensor<4x17xf32>
    ```

    Constraints: AG-1, AG-2 and AG-3; RD-1: `pre` and `post` are finite and above
    zero; RD-2: they stand at sums of floating-point numbers alone; RD-3: where AG-1
    does not hold, sums of bf16 or f16 that travel are made in f32 and stay in it.
  }];
  let arguments = (ins AnyRankedTensor:$full, Fsdp_ReductionAttr:$reduction,
                       I64Attr:$dim, Fsdp_Group:$group,
                       OptionalAttr<FlatSymbolRefAttr>:$of,
                       OptionalAttr<F64Attr>:$pre, OptionalAttr<F64Attr>:$post,
                       OptionalAttr<Fsdp_Parts>:$parts,
                       DefaultValuedAttr<Fsdp_PurposeAttr,
                                         "::fsdp::Purpose::Gradient">:$purpose);
  let results = (outs AnyRankedTensor:$shard);
  let builders = [
    OpBuilder<(ins "::mlir::Type":$shard, "::mlir::Value":$full,
                   "::fsdp::Reduction":$reduction, "int64_t":$dim,
                   "::fsdp::GroupAttr":$group,
                   "::mlir::FlatSymbolRefAttr":$of,
                   CArg<"::fsdp::Purpose",
                        "::fsdp::Purpose::Gradient">:$purpose), [{
      build($_builder, $_state, shard, full, reduction, dim, group, of,
            ::mlir::FloatAttr(), ::mlir::FloatAttr(), ::fsdp::PartsAttr(),
            purpose);
    }]>];
  let assemblyFormat = [{
    `` $reduction $full (`pre` $pre^)? (`post` $post^)? `dim` $dim
    (`in` $parts^)? `over` $group (`for` `` $purpose^)? (`of` $of^)? attr-dict
    `:` type($full) `->` type($shard)
  }];
  let extraClassDeclaration = [{
    static ::fsdp::Collective getKind() {
      return ::fsdp::Collective::ReduceScatter;
    }
    int64_t getRowsDim() { return getDim(); }
    ::mlir::FlatSymbolRefAttr getGradientOf(unsigned) { return getOfAttr(); }
  }];
}

def Fsdp_AllReduceOp
    : Fsdp_Op<"all_reduce", [Pure, AllTypesMatch<["input", "result"]>,
                             ReductionOpInterface,
                             ForwardingOpInterface]> {
  let summary = "combine a tensor over a group; each rank keeps all of it";
  let description = [{
    Example:

    ```mlir
    %n = fsdp.all_reduce avg %loss over #shard for metric : tensor<f32>
    ```

    Constraints: RD-1 and RD-2 of `reduce_scatter`.
  }];
  let arguments = (ins AnyRankedTensor:$input, Fsdp_ReductionAttr:$reduction,
                       Fsdp_Group:$group,
                       OptionalAttr<FlatSymbolRefAttr>:$of,
                       OptionalAttr<F64Attr>:$pre, OptionalAttr<F64Attr>:$post,
                       DefaultValuedAttr<Fsdp_PurposeAttr,
                                         "::fsdp::Purpose::Gradient">:$purpose);
  let results = (outs AnyRankedTensor:$result);
  let builders = [
    OpBuilder<(ins "::mlir::Type":$result, "::mlir::Value":$input,
                   "::fsdp::Reduction":$reduction, "::fsdp::GroupAttr":$group,
                   "::mlir::FlatSymbolRefAttr":$of,
                   CArg<"::fsdp::Purpose",
                        "::fsdp::Purpose::Gradient">:$purpose), [{
      build($_builder, $_state, result, input, reduction, group, of,
            ::mlir::FloatAttr(), ::mlir::FloatAttr(), purpose);
    }]>];
  let assemblyFormat = [{
    `` $reduction $input (`pre` $pre^)? (`post` $post^)? `over` $group
    (`for` `` $purpose^)? (`of` $of^)? attr-dict `:` type($input)
  }];
  let extraClassDeclaration = [{
    static ::fsdp::Collective getKind() { return ::fsdp::Collective::AllReduce; }
    ::mlir::FlatSymbolRefAttr getGradientOf(unsigned) { return getOfAttr(); }
  }];
  let hasVerifier = 1;
}

def Fsdp_PackOp : Fsdp_Op<"pack", [Pure]> {
  let summary = "lay tensors side by side, with zeros between them";
  let description = [{
    A tensor of one dim in which each operand lies, row-major, from its offset
    on. With `of`, the operands are the gradients of the members of a flat state.

    The planner lets the operands be computed in their places, so that nothing is
    copied; what cannot be is copied there. Nothing is zeroed but what lies
    between.

    Example:

    ```mlir
    %p = fsdp.pack(%g, %h) at [0, 96] of @"fc3/flat"
        : tensor<5x13xf32>, tensor<5xf32> -> tensor<128xf32>
    ```

    Constraints:
    * PK-1: one offset for each operand, each behind the end of the operand before
      it, the last inside of the result;
    * PK-2: operands and result have one element type.
  }];
  let arguments = (ins Variadic<AnyRankedTensor>:$inputs,
                       DenseI64ArrayAttr:$offsets,
                       OptionalAttr<FlatSymbolRefAttr>:$of);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    `(` $inputs `)` `at` $offsets (`of` $of^)? attr-dict
    `:` type($inputs) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Fsdp_UnpackOp
    : Fsdp_Op<"unpack", [Pure, AliasOpInterface]> {
  let summary = "one of the tensors that lie side by side in another";
  let description = [{
    The row-major tensor that begins at an element of `packed`: a member of a
    gathered flat state. A view; nothing is copied.

    Example:

    ```mlir
    %w = fsdp.unpack %full at 96 : tensor<128xf32> -> tensor<5xf32>
    ```

    Constraints:
    * UP-1: the result, contiguous, lies inside of the operand, which has one dim;
    * UP-2: both have one element type.
  }];
  let arguments = (ins AnyRankedTensor:$packed, I64Attr:$offset);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    $packed `at` $offset attr-dict `:` type($packed) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Fsdp_CopyOp
    : Fsdp_Op<"copy", [Pure, AllTypesMatch<["input", "result"]>,
                       ForwardingOpInterface]> {
  let summary = "the same tensor in another memory of the rank";
  let description = [{
    Where tensors lie, arguments say (`memory` of their states), copies, and what
    ops read: a result lies where the operands do. `of` names the parameter that
    the operand is the shard, or the gradient, of; such copies of a bucket become
    one.

    Example:

    ```mlir
    %d = fsdp.copy %w to device of @fc1.weight : tensor<7x17xf32>
    %full = fsdp.all_gather %d dim 0 over #shard
        : tensor<7x17xf32> -> tensor<13x17xf32>
    ```

    Constraint ME-1, checked by the stages' verifiers: all tensors that an op reads
    lie in one memory, but for constants; what ranks exchange lies on the device.
  }];
  let arguments = (ins AnyRankedTensor:$input, Fsdp_MemorySpaceAttr:$to,
                       OptionalAttr<FlatSymbolRefAttr>:$of);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    $input `to` `` $to (`of` $of^)? attr-dict `:` type($input)
  }];
}

def Fsdp_ReplayOp : Fsdp_Op<"replay",
    [AllTypesMatch<["input", "result"]>, Fsdp_Scheduled,
     ForwardingOpInterface, AliasOpInterface]> {
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
    : Fsdp_Op<"accumulate", [Pure, ForwardingOpInterface]> {
  let summary = "add what a micro-batch adds to a running sum";
  let description = [{
    The sum of `into` and the first operand, which is a gradient of the parameter
    that `of` names, or an output that is a number. With `divide A` the sum is that
    of all A micro-batches of a step, and the result is their mean. May widen the
    element type.

    With `tree` the micro-batch is a grain (`#fsdp.step`), and `into` holds sums of
    earlier grains side by side. The grain is added to those that its place in the
    step's tree completes; in the last micro-batch the result is the sum of them
    all. A rank that has no such grain adds nothing.

    The planner does it in place: where `into` lies if the result is its new value,
    else where the first operand lies.

    Example:

    ```mlir
    %n = fsdp.accumulate %g into %acc of @w : tensor<13xbf16>, tensor<13xf32>
    %m = fsdp.accumulate %h into %n of @w divide 3 : tensor<13xf32>, tensor<13xf32>
    %t = fsdp.accumulate %i into %p tree of @w
        : tensor<13xf32>, tensor<2x13xf32> -> tensor<13xf32>
    ```

    Constraints:
    * AC-1: gradient and sum have one shape;
    * AC-2: the sum is divided by the number of micro-batches, at least 2;
    * AC-3: a tree's sums have one type, and one dim more than the gradient; its
      result has the type of `into`, or the gradient's.
  }];
  let arguments = (ins AnyRankedTensor:$into, AnyRankedTensor:$gradient,
                       OptionalAttr<FlatSymbolRefAttr>:$of,
                       OptionalAttr<I64Attr>:$divisor, UnitAttr:$tree);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    $gradient `into` $into (`tree` $tree^)? (`of` $of^)? (`divide` $divisor^)? attr-dict
    `:` custom<SumTypes>(type($gradient), type($into), type($result))
  }];
  let extraClassDeclaration = [{
    ::mlir::Value getForwarded(::mlir::OpResult) { return getGradient(); }
  }];
  let hasVerifier = 1;
}

def Fsdp_DequantizeOp : Fsdp_Op<"dequantize", [Pure]> {
  let summary = "the numbers that blocks of codes stand for";
  let description = [{
    Each code's number times its block's scale, in f32, rounded to the result's type
    (support/BlockNumbers.h). Blocks are of `block_size` neighbouring elements of the
    result in row-major order; what of the last one lies beyond its end is left out.
    With `double_quant` their scales are codes as well.

    Example: `%w = fsdp.dequantize %b nf4 : tensor<32x36xui8> -> tensor<32x64xbf16>`

    Constraint DQ-1: the result is of f32, bf16 or f16 and contiguous, blocks have a
    power of two of elements from 32 to 4096, and the operand has the bytes of as many as
    the result needs.
  }];
  let arguments = (ins AnyRankedTensor:$blocks, Fsdp_QuantizedKindAttr:$kind,
                       DefaultValuedAttr<I64Attr, "64">:$block_size,
                       UnitAttr:$double_quant);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    $blocks `` $kind attr-dict `:` type($blocks) `->` type($result)
  }];
  let extraClassDeclaration = [{
    ::fsdp::BlockForm getForm();
  }];
  let hasVerifier = 1;
}

#endif // FSDP_OPS_LOGICAL_TD
