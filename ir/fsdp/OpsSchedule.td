//===- OpsSchedule.td - Transfers in time ------------------------*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_OPS_SCHEDULE_TD
#define FSDP_OPS_SCHEDULE_TD

include "OpBase.td"

// A start op moves all members of one bucket at once and returns immediately.
// It is ordered behind all work issued before it, and what is issued after its
// wait behind the transfer. Its operands may not be written, nor its results
// read, before the wait.
// (group, stream) names the communicator: the same ranks gather and reduce on
// two of them. The future is called after the bucket and what happens to it:
// `%gather.fc1`, `%regather.fc1` (a second time), `%reduce.fc1`.
class Fsdp_AnyStartOp<string mnemonic, dag extra, list<Trait> traits>
    : Fsdp_Op<mnemonic # ".start", [Fsdp_Queued, Fsdp_NamedResults,
                                    StartOpInterface] # traits> {
  let arguments = !con((ins Variadic<AnyRankedTensor>:$inputs), extra,
                       (ins Fsdp_StreamAttr:$stream,
                            OptionalAttr<StrAttr>:$bucket));
  let results = (outs Fsdp_Future:$future);
  let hasVerifier = 1;
}

class Fsdp_StartOp<string mnemonic, dag extra, list<Trait> traits = [CollectiveOpInterface]>
    : Fsdp_AnyStartOp<mnemonic, !con(extra, (ins Fsdp_Group:$group)), traits>;

def Fsdp_AllGatherStartOp
    : Fsdp_StartOp<"all_gather", (ins DenseI64ArrayAttr:$dims,
                                      OptionalAttr<Fsdp_Parts>:$parts)> {
  let summary = "begin to gather the shards of a bucket";
  let description = [{
    Begins when all work issued before it is done: nothing else orders it. Until
    its wait its operands may not be written.

    Example:

    ```mlir
    %gather.fc1 = fsdp.all_gather.start "fc1"(%w, %b) dims [0, 0] over #shard on gather
        : tensor<7x17xf32>, tensor<7xf32>
        -> !fsdp.future<tensor<13x17xf32>, tensor<13xf32>>
    ```

    Constraints: FU-1: the future promises one tensor for each operand; AG-1, AG-2
    and AG-3 hold for each pair.
  }];
  let builders = [
    OpBuilder<(ins "::mlir::Type":$future, "::mlir::ValueRange":$inputs,
                   "::llvm::ArrayRef<int64_t>":$dims,
                   "::fsdp::GroupAttr":$group, "::fsdp::Stream":$stream,
                   "::mlir::StringAttr":$bucket), [{
      build($_builder, $_state, future, inputs, dims, ::fsdp::PartsAttr(), group,
            stream, bucket);
    }]>];
  let assemblyFormat = [{
    ($bucket^)? `(` custom<Operands>($inputs) `)` `dims` $dims (`in` $parts^)? `over` $group `on` `` $stream
    attr-dict `:` custom<Types>(type($inputs)) `->` qualified(type($future))
  }];
}

def Fsdp_ReduceScatterStartOp : Fsdp_StartOp<"reduce_scatter",
    (ins Fsdp_ReductionAttr:$reduction, DenseI64ArrayAttr:$dims,
         OptionalAttr<Fsdp_Parts>:$parts, OptionalAttr<ArrayAttr>:$of, OptionalAttr<F64Attr>:$pre,
         OptionalAttr<F64Attr>:$post), [ReductionOpInterface]> {
  let summary = "begin to reduce and scatter the gradients of a bucket";
  let description = [{
    Begins when all work issued before it is done: nothing else orders it. Until
    its wait its operands may not be written.

    Example:

    ```mlir
    %reduce.fc1 = fsdp.reduce_scatter.start avg "fc1"(%g) dims [0] over #shard on reduce
        of [@fc1.weight] : tensor<13x17xf32> -> !fsdp.future<tensor<7x17xf32>>
    ```

    Constraints: FU-1, AG-1 to AG-3 as for `all_gather.start`; FU-2: `of` names one
    parameter for each operand; RD-1, RD-2 as for `reduce_scatter`.
  }];
  let builders = [
    OpBuilder<(ins "::mlir::Type":$future, "::mlir::ValueRange":$inputs,
                   "::fsdp::Reduction":$reduction,
                   "::llvm::ArrayRef<int64_t>":$dims, "::mlir::ArrayAttr":$of,
                   "::fsdp::GroupAttr":$group, "::fsdp::Stream":$stream,
                   "::mlir::StringAttr":$bucket), [{
      build($_builder, $_state, future, inputs, reduction, dims,
            ::fsdp::PartsAttr(), of, ::mlir::FloatAttr(), ::mlir::FloatAttr(),
            group, stream, bucket);
    }]>];
  let assemblyFormat = [{
    `` $reduction ($bucket^)? `(` custom<Operands>($inputs) `)` (`pre` $pre^)? (`post` $post^)? `dims` $dims (`in` $parts^)? `over` $group
    `on` `` $stream (`of` $of^)? attr-dict
    `:` custom<Types>(type($inputs)) `->` qualified(type($future))
  }];
  let extraClassDeclaration = [{
    ::mlir::FlatSymbolRefAttr getGradientOf(unsigned index);
  }];
}

def Fsdp_AllReduceStartOp : Fsdp_StartOp<"all_reduce",
    (ins Fsdp_ReductionAttr:$reduction, OptionalAttr<ArrayAttr>:$of,
         OptionalAttr<F64Attr>:$pre, OptionalAttr<F64Attr>:$post),
    [ReductionOpInterface]> {
  let summary = "begin to reduce a bucket over a group";
  let description = [{
    Begins when all work issued before it is done: nothing else orders it. The
    promised tensors take the operands' places, which may be neither read nor
    written until its wait.

    Example:

    ```mlir
    %all_reduce.metrics = fsdp.all_reduce.start avg "metrics"(%loss, %norm) over #shard on reduce
        : tensor<f32>, tensor<f32> -> !fsdp.future<tensor<f32>, tensor<f32>>
    ```

    Constraints: FU-1; FU-2; FU-3: promised types equal the operands'; RD-1, RD-2.
  }];
  let builders = [
    OpBuilder<(ins "::mlir::Type":$future, "::mlir::ValueRange":$inputs,
                   "::fsdp::Reduction":$reduction, "::mlir::ArrayAttr":$of,
                   "::fsdp::GroupAttr":$group, "::fsdp::Stream":$stream,
                   "::mlir::StringAttr":$bucket), [{
      build($_builder, $_state, future, inputs, reduction, of,
            ::mlir::FloatAttr(), ::mlir::FloatAttr(), group, stream, bucket);
    }]>];
  let assemblyFormat = [{
    `` $reduction ($bucket^)? `(` custom<Operands>($inputs) `)` (`pre` $pre^)? (`post` $post^)? `over` $group `on` `` $stream
    (`of` $of^)? attr-dict `:` custom<Types>(type($inputs)) `->` qualified(type($future))
  }];
  let extraClassDeclaration = [{
    ::mlir::FlatSymbolRefAttr getGradientOf(unsigned index);
  }];
}

def Fsdp_RotateStartOp : Fsdp_StartOp<"rotate", (ins)> {
  let summary = "begin to pass tensors on to the next rank of a group";
  let description = [{
    Each rank's operands come to the next one, the last one's to the first: a step of
    a ring (XLA's `collective-permute`, NCCL's `ncclSend` and `ncclRecv`). Begins when
    all work issued before it is done. Until its wait its operands may not be written.
    Made by `fsdp-lower-ring` alone, as it is more of time than of sharding: what is
    passed on first is decided by what is computed beside it.

    Example:

    ```mlir
    %rotate.attn = fsdp.rotate.start "attn"(%k, %v) over #cp on replicate
        : tensor<1x4x8x16xf32>, tensor<1x4x8x16xf32>
        -> !fsdp.future<tensor<1x4x8x16xf32>, tensor<1x4x8x16xf32>>
    ```

    Constraints: FU-1; FU-3: promised types equal the operands'.
  }];
  let assemblyFormat = [{
    ($bucket^)? `(` custom<Operands>($inputs) `)` `over` $group `on` `` $stream
    attr-dict `:` custom<Types>(type($inputs)) `->` qualified(type($future))
  }];
  let extraClassDeclaration = [{
    bool isInPlace() { return false; }
  }];
}

def Fsdp_CopyStartOp
    : Fsdp_AnyStartOp<"copy", (ins Fsdp_MemorySpaceAttr:$to), []> {
  let summary = "begin to copy a bucket's tensors to another memory of the rank";
  let description = [{
    Copies on one stream keep their order; those on `upload` and on `download` run
    beside each other and beside all work that is issued before the wait. Until
    then the operands may not be written. What the host computes with is there
    once the wait is over.

    Example:

    ```mlir
    %upload.fc1 = fsdp.copy.start "fc1"(%w, %b) to device on upload
        : tensor<7x17xf32>, tensor<7xf32>
        -> !fsdp.future<tensor<7x17xf32>, tensor<7xf32>>
    ```

    Constraints: FU-1; FU-3: promised types equal the operands'; CP-1: what goes to
    the device is on `upload`, what goes to the host on `download`.
  }];
  let assemblyFormat = [{
    ($bucket^)? `(` custom<Operands>($inputs) `)` `to` `` $to `on` `` $stream
    attr-dict `:` custom<Types>(type($inputs)) `->` qualified(type($future))
  }];
  let extraClassDeclaration = [{
    bool isInPlace() { return false; }
  }];
}

def Fsdp_WaitOp : Fsdp_Op<"wait", [Fsdp_Scheduled, Fsdp_NamedResults,
                                   ForwardingOpInterface]> {
  let summary = "let the compute stream see the tensors of a future";
  let description = [{
    Ends the transfer: all work issued from here on comes after it, and its
    operands' memory may be reused. Not pure: an
    unread wait must stay, else its start would never be waited for. Its bucket is
    in the name of its operand; its results are called after the parameters that
    they belong to: `%fc1.weight.full` gathered, `%fc1.weight.grad` reduced.

    Example:

    ```mlir
    %w, %b = fsdp.wait %gather.fc1 : !fsdp.future<tensor<13x17xf32>, tensor<13xf32>>
        -> tensor<13x17xf32>, tensor<13xf32>
    ```

    Constraint WA-1: results have the promised types.
  }];
  let arguments = (ins Fsdp_Future:$future);
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let assemblyFormat = [{
    $future attr-dict `:` qualified(type($future)) `->` type($results)
  }];
  let extraClassDeclaration = [{
    /// The start that it waits for; null if the future is another op's.
    ::fsdp::StartOpInterface getStart();
    ::mlir::Value getForwarded(::mlir::OpResult result);
  }];
  let hasVerifier = 1;
}

def Fsdp_FreeOp : Fsdp_Op<"free"> {
  let summary = "end the lifetime of gathered tensors";
  let description = [{
    The tensors' memory may be reused from here on; at run time nothing happens.

    Example: `fsdp.free %w, %b : tensor<13x17xf32>, tensor<13xf32>`
  }];
  let arguments = (ins Arg<Variadic<AnyRankedTensor>, "", [MemFree]>:$tensors);
  let assemblyFormat = "$tensors attr-dict `:` type($tensors)";
}

#endif // FSDP_OPS_SCHEDULE_TD
