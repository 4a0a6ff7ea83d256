//===- OpsOptimizer.td - Optimizers on shards --------------------*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_OPS_OPTIMIZER_TD
#define FSDP_OPS_OPTIMIZER_TD

include "OpBase.td"

def Fsdp_UpdateOp : Fsdp_Op<"update", [Pure, AttrSizedOperandSegments,
                                       AttrSizedResultSegments,
                                       DeclareOpInterfaceMethods<OpAsmOpInterface,
                                           ["getAsmResultNames"]>]> {
  let summary = "new values of the shards of one group by an optimizer";
  let description = [{
    `kind` is a row of support/Optimizers.def: what the optimizer keeps of each
    parameter (`moments`, all of a name before those of the next) and by which
    numbers it goes; the arithmetic is that of torch.optim's class. `step` counts this
    update, from 1. `grad_scale` divides the gradients (the clip coefficient);
    where `found_inf` is 1, all stays as it was.

    Functional: new values are results, bound to the states of the old ones, and
    the planner gives both one address. All is elementwise and keeps padding rows
    zero.

    Moments have the parameter's shape and one element type, by default its own: f32
    and bf16 are stored as they are, ui8 and f8E4M3FN are codes in blocks of 256
    elements of the model's tensor, each with a scale (f32). Either a rank has
    whole blocks, and `scales` are those of its own; or ranks share some, `scales` are
    those of the whole tensor on every rank, and `maxima` has their new values one
    behind the other, which `fsdp.block_maxima` and a reduction have found. `rounding`
    is the seed of the stochastic rounding of parameters in bf16.

    `rates` are what `step` and `lr` come to, so that all the rest is done element by
    element in f32: an operator of kernels (`fsdp.kernel`), of one parameter.

    Example:

    ```mlir
    %new:3 = fsdp.update adamw params(%w) grads(%g) exp_avgs(%m) exp_avg_sqs(%v)
        step %step lr %lr betas(9.0e-01, 9.5e-01) eps 1.0e-08
        weight_decay 1.0e-01 : tensor<7x17xf32>
    %next:2 = fsdp.update sgd params(%w) grads(%g) momentum_buffers(%m) lr %lr
        momentum 9.0e-01 weight_decay 0.0 : tensor<7x17xf32>
    ```

    Constraint OP-1: one gradient for each parameter, and one moment of each name
    that the kind keeps for its numbers (sgd without momentum: none).

    Constraint OP-2: the kind's numbers and no others, each in its range; a `step`
    for a kind that counts updates, and for `rounding`.

    Constraint OP-3: moments of ui8 and f8E4M3FN have a scale each, and no others
    have; `maxima` has as many elements as all scales together.

    Constraint OP-4: with `rates`, there is one parameter, which is of f32 as its
    moments are, and rates are `tensor<f32>`.
  }];
  let arguments = (ins Fsdp_OptimizerKindAttr:$kind,
                       Variadic<AnyRankedTensor>:$params,
                       Variadic<AnyRankedTensor>:$grads,
                       Variadic<AnyRankedTensor>:$moments,
                       Variadic<AnyRankedTensor>:$scales,
                       Optional<AnyRankedTensor>:$maxima,
                       Optional<AnyRankedTensor>:$step, AnyRankedTensor:$lr,
                       Optional<AnyRankedTensor>:$grad_scale,
                       Optional<AnyRankedTensor>:$found_inf,
                       Variadic<AnyRankedTensor>:$rates,
                       DictionaryAttr:$numbers, OptionalAttr<I64Attr>:$rounding);
  let results = (outs Variadic<AnyRankedTensor>:$new_params,
                      Variadic<AnyRankedTensor>:$new_moments,
                      Variadic<AnyRankedTensor>:$new_scales);
  let assemblyFormat = [{
    `` $kind `params` `(` custom<Operands>($params) `)`
    `grads` `(` custom<Operands>($grads) `)`
    custom<Moments>(ref($kind), $moments)
    (`scales` `(` $scales^ `)`)? (`maxima` $maxima^)? (`step` $step^)? `lr` $lr
    (`grad_scale` $grad_scale^)? (`found_inf` $found_inf^)?
    (`rates` `(` $rates^ `)`)?
    custom<Numbers>(ref($kind), $numbers) (`rounding` $rounding^)?
    attr-dict `:` custom<UpdateTypes>(type($params), type($grads),
        ref($moments), type($moments), ref($scales), type($scales),
        ref($maxima), type($maxima), ref($step), type($step), type($lr),
        ref($grad_scale), type($grad_scale), ref($found_inf), type($found_inf),
        ref($rates), type($rates), type($new_params), type($new_moments),
        type($new_scales))
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// All that is updated: parameters, moments by name, scales (`kScales`).
    ::llvm::SmallVector<::fsdp::StateUpdate> getUpdates();
  }];
}

def Fsdp_BlockMaximaOp
    : Fsdp_Op<"block_maxima", [Pure, AttrSizedOperandSegments]> {
  let summary = "what blocks of moments will hold at most, of a rank's elements";
  let description = [{
    Before an update of that `kind` whose blocks ranks share: for each block of each
    moment, in the order of `scales`, the greatest absolute value that this rank's
    elements of it will have after the update; 0 where it has none. The maximum over
    the ranks is what the block is coded by. Operands and numbers are the update's.

    Example:

    ```mlir
    %found = fsdp.block_maxima adamw params(%w) grads(%g) exp_avgs(%m)
        exp_avg_sqs(%v) scales(%ms, %vs) betas(9.0e-01, 9.5e-01) eps 1.0e-08
        weight_decay 1.0e-01
        : (tensor<35x150xf32>, tensor<35x150xf32>, tensor<35x150xui8>,
           tensor<35x150xui8>, tensor<41xf32>, tensor<41xf32>) -> tensor<82xf32>
    ```

    Constraint BM-1: at least one parameter; OP-1 holds, numbers as in OP-2, and
    moments are of ui8 or f8E4M3FN, with a scale each.

    Constraint BM-2: the result has one dim of as many elements of f32 as all
    scales together.
  }];
  let arguments = (ins Fsdp_OptimizerKindAttr:$kind,
                       Variadic<AnyRankedTensor>:$params,
                       Variadic<AnyRankedTensor>:$grads,
                       Variadic<AnyRankedTensor>:$moments,
                       Variadic<AnyRankedTensor>:$scales,
                       Optional<AnyRankedTensor>:$grad_scale,
                       DictionaryAttr:$numbers);
  let results = (outs AnyRankedTensor:$maxima);
  let assemblyFormat = [{
    `` $kind `params` `(` $params `)` `grads` `(` $grads `)`
    custom<Moments>(ref($kind), $moments) `scales` `(` $scales `)`
    (`grad_scale` $grad_scale^)? custom<Numbers>(ref($kind), $numbers) attr-dict `:`
    functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def Fsdp_SquareSumOp : Fsdp_Op<"square_sum", [Pure]> {
  let summary = "the exact sum of the squares of all elements";
  let description = [{
    As digits of a number that is wide enough for all squares, which ranks may add in
    any order (support/ExactSum.h): the sum does not depend on how tensors are cut.
    Zeros, and with them padding rows, add nothing.

    Example: `%d = fsdp.square_sum(%g, %h) : (tensor<7x17xf32>, tensor<9xf32>) -> tensor<16xi64>`

    Constraint SQ-1: operands are of f32, bf16 or f16; the result is `tensor<16xi64>`.
  }];
  let arguments = (ins Variadic<AnyRankedTensor>:$inputs);
  let results = (outs AnyRankedTensor:$sum);
  let assemblyFormat = [{
    `(` $inputs `)` attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def Fsdp_SquareRootOp : Fsdp_Op<"square_root", [Pure]> {
  let summary = "the root of what exact sums of squares come to together";
  let description = [{
    Example: `%n = fsdp.square_root(%d, %e) : tensor<16xi64>, tensor<16xi64> -> tensor<f32>`

    Constraint SQ-2: operands are what `square_sum` gives, at least one; the result is
    `tensor<f32>`.
  }];
  let arguments = (ins Variadic<AnyRankedTensor>:$sums);
  let results = (outs AnyRankedTensor:$root);
  let assemblyFormat = [{
    `(` $sums `)` attr-dict `:` type($sums) `->` type($root)
  }];
  let hasVerifier = 1;
}

#endif // FSDP_OPS_OPTIMIZER_TD
