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
    : Fsdp_Op<mnemonic, [Fsdp_Queued, Fsdp_NamedResults, StartOpInterface]
                        # traits> {
  let arguments = !con((ins Variadic<AnyRankedTensor>:$inputs), extra,
                       (ins Fsdp_StreamAttr:$stream,
                            OptionalAttr<StrAttr>:$bucket));
  let results = (outs Fsdp_Future:$future);
  let hasVerifier = 1;
}

def Fsdp_StartOp : Fsdp_AnyStartOp<"start",
    (ins Fsdp_CollectiveAttr:$kind,
         OptionalAttr<Fsdp_ReductionAttr>:$combination,
         OptionalAttr<DenseI64ArrayAttr>:$dims,
         OptionalAttr<Fsdp_Parts>:$parts, OptionalAttr<ArrayAttr>:$of,
         OptionalAttr<F64Attr>:$pre, OptionalAttr<F64Attr>:$post,
         Fsdp_Group:$group, Fsdp_PurposeAttr:$purpose),
    [ReductionOpInterface]> {
  let summary = "begin what ranks do together with the tensors of a bucket";
  let description = [{
    Begins when all work issued before it is done: nothing else orders it. Until
    its wait its operands may not be written. By kind, with what each has beside:

    | kind             | the promised tensors                            | has |
    |------------------|-------------------------------------------------|-----|
    | `all_gather`     | the operands of all ranks, along `dims`         | `dims` |
    | `reduce_scatter` | a rank's rows, along `dims`, of what is combined | a reduction, `dims` |
    | `all_reduce`     | what is combined, in the operands' places, which may be neither read nor written until the wait | a reduction |
    | `rotate`         | the operands of the group's previous rank, the last one's on the first: a step of a ring (XLA's `collective-permute`, NCCL's `ncclSend` and `ncclRecv`) | |
    | `all_to_all`     | of each rank, in order, the part along `dims` that it has for this one | `dims` |

    What combines, and what exchanges parts that are to be, may name with `of` the
    parameters whose gradients it is given; what combines may divide by `pre` and `post`
    as `reduce_scatter` does. Rotations are made by
    `fsdp-lower-ring` alone, as they are more of time than of sharding: what is
    passed on first is decided by what is computed beside it. Exchanges of parts are made
    by `fsdp-lower-wires`.

    `for` says what it is for, if that is not the obvious: what combines is for
    gradients, all else for parameters.

    Example:

    ```mlir
    %gather.fc1 = fsdp.start all_gather "fc1"(%w, %b) dims [0, 0] over #shard on gather
        : tensor<7x17xf32>, tensor<7xf32>
        -> !fsdp.future<tensor<13x17xf32>, tensor<13xf32>>
    %reduce.fc1 = fsdp.start reduce_scatter avg "fc1"(%g) dims [0] over #shard on reduce
        of [@fc1.weight] : tensor<13x17xf32> -> !fsdp.future<tensor<7x17xf32>>
    %all_reduce.metrics = fsdp.start all_reduce avg "metrics"(%loss, %norm) over #shard for metric on reduce
        : tensor<f32>, tensor<f32> -> !fsdp.future<tensor<f32>, tensor<f32>>
    %rotate.attn = fsdp.start rotate "attn"(%k, %v) over #cp for step on replicate
        : tensor<1x4x8x16xf32>, tensor<1x4x8x16xf32>
        -> !fsdp.future<tensor<1x4x8x16xf32>, tensor<1x4x8x16xf32>>
    %exchange.fc1 = fsdp.start all_to_all "fc1"(%h) dims [0] over #shard for gradient on reduce
        : tensor<13x17xbf16> -> !fsdp.future<tensor<14x17xbf16>>
    ```

    Constraints: FU-1: the future promises one tensor for each operand; FU-2: `of`
    names one parameter for each operand; FU-3: where there are no `dims` promised
    types equal the operands'; FU-4: it has what its kind has, and nothing else; where
    there are, AG-1, AG-2 and AG-3 hold for each pair; RD-1, RD-2 as for
    `reduce_scatter`; AA-1: what is promised of an `all_to_all` is its operand, with the
    rows along the dim that make all parts equal.
  }];
  let builders = [
    OpBuilder<(ins "::mlir::Type":$future, "::mlir::ValueRange":$inputs,
                   "::fsdp::Collective":$kind, "::fsdp::GroupAttr":$group,
                   "::fsdp::Purpose":$purpose, "::fsdp::Stream":$stream,
                   "::mlir::StringAttr":$bucket), [{
      build($_builder, $_state, future, inputs, kind, ::fsdp::ReductionAttr(),
            ::mlir::DenseI64ArrayAttr(), ::fsdp::PartsAttr(),
            ::mlir::ArrayAttr(), ::mlir::FloatAttr(), ::mlir::FloatAttr(),
            group, purpose, stream, bucket);
    }]>];
  let assemblyFormat = [{
    custom<Collective>($kind, $combination) ($bucket^)?
    `(` custom<Operands>($inputs) `)` (`pre` $pre^)? (`post` $post^)?
    (`dims` $dims^)? (`in` $parts^)? `over` $group `` custom<Purpose>($purpose, ref($kind))
    `on` `` $stream (`of` $of^)? attr-dict
    `:` custom<Types>(type($inputs)) `->` qualified(type($future))
  }];
  let extraClassDeclaration = [{
    bool isInPlace() { return getKind() == ::fsdp::Collective::AllReduce; }
    bool isCombining() { return ::fsdp::isCombining(getKind()); }
    ::fsdp::Reduction getReduction() {
      return getCombination().value_or(::fsdp::Reduction::Sum);
    }
    void setReduction(::fsdp::Reduction reduction) { setCombination(reduction); }
    ::mlir::FlatSymbolRefAttr getGradientOf(unsigned index);
  }];
}

def Fsdp_CopyStartOp
    : Fsdp_AnyStartOp<"copy.start", (ins Fsdp_MemorySpaceAttr:$to), []> {
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
