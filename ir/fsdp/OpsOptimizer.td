//===- OpsOptimizer.td - Optimizers on shards --------------------*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_OPS_OPTIMIZER_TD
#define FSDP_OPS_OPTIMIZER_TD

include "OpBase.td"

// Functional: new values are results, bound to the states of the old ones, and
// the planner gives both one address. All are elementwise and keep padding rows
// zero. `grad_scale` divides the gradients (the clip coefficient); where
// `found_inf` is 1, all stays as it was.
//
// Moments have the parameter's shape and one element type, by default its own: f32
// and bf16 are stored as they are, ui8 and f8E4M3FN are codes in blocks of 256 elements
// of the model's tensor, each with a scale (f32). Either a rank has whole blocks,
// and `scales` are those of its own; or ranks share some, `scales` are those of the
// whole tensor on every rank, and `maxima` has their new values one behind the
// other, which `fsdp.block_maxima` and a reduction have found. `rounding` is the seed of
// the stochastic rounding of parameters in bf16.
class Fsdp_OptimizerOp<string mnemonic, string updates>
    : Fsdp_Op<mnemonic, [Pure, AttrSizedOperandSegments, AttrSizedResultSegments,
                         OpAsmOpInterface, OptimizerOpInterface]> {
  let extraClassDeclaration = updates # [{
    void getAsmResultNames(::mlir::OpAsmSetValueNameFn set) {
      ::fsdp::nameUpdates(*this, set);
    }
  }];
}

class Fsdp_AdamLikeOp<string mnemonic> : Fsdp_OptimizerOp<mnemonic, [{
    ::llvm::SmallVector<::fsdp::StateUpdate> getUpdates() {
      return {{"parameter", getParams(), getNewParams()},
              {"exp_avg", getExpAvgs(), getNewExpAvgs()},
              {"exp_avg_sq", getExpAvgSqs(), getNewExpAvgSqs()},
              {::fsdp::kScales, getScales(), getNewScales()}};
    }
  }]> {
  let arguments = (ins Variadic<AnyRankedTensor>:$params,
                       Variadic<AnyRankedTensor>:$grads,
                       Variadic<AnyRankedTensor>:$exp_avgs,
                       Variadic<AnyRankedTensor>:$exp_avg_sqs,
                       Variadic<AnyRankedTensor>:$scales,
                       Optional<AnyRankedTensor>:$maxima,
                       AnyRankedTensor:$step, AnyRankedTensor:$lr,
                       Optional<AnyRankedTensor>:$grad_scale,
                       Optional<AnyRankedTensor>:$found_inf,
                       F64Attr:$beta1, F64Attr:$beta2, F64Attr:$eps,
                       F64Attr:$weight_decay, OptionalAttr<I64Attr>:$rounding);
  let results = (outs Variadic<AnyRankedTensor>:$new_params,
                      Variadic<AnyRankedTensor>:$new_exp_avgs,
                      Variadic<AnyRankedTensor>:$new_exp_avg_sqs,
                      Variadic<AnyRankedTensor>:$new_scales);
  let assemblyFormat = [{
    `params` `(` custom<Operands>($params) `)` `grads` `(` custom<Operands>($grads) `)`
    `exp_avgs` `(` custom<Operands>($exp_avgs) `)` `exp_avg_sqs` `(` custom<Operands>($exp_avg_sqs) `)`
    (`scales` `(` $scales^ `)`)? (`maxima` $maxima^)?
    `step` $step `lr` $lr (`grad_scale` $grad_scale^)?
    (`found_inf` $found_inf^)?
    `betas` `(` $beta1 `,` $beta2 `)` `eps` $eps `weight_decay` $weight_decay
    (`rounding` $rounding^)?
    attr-dict `:` custom<AdamTypes>(type($params), type($grads),
        type($exp_avgs), type($exp_avg_sqs), ref($scales), type($scales),
        ref($maxima), type($maxima), type($step), type($lr),
        ref($grad_scale), type($grad_scale), ref($found_inf), type($found_inf),
        type($new_params), type($new_exp_avgs), type($new_exp_avg_sqs),
        type($new_scales))
  }];
}

def Fsdp_AdamWOp : Fsdp_AdamLikeOp<"adamw"> {
  let summary = "Adam with decoupled weight decay on the shards of one group";
  let description = [{
    torch.optim.AdamW (Loshchilov and Hutter, arXiv:1711.05101). `step` counts
    this update, from 1.

    Example:

    ```mlir
    %new:3 = fsdp.adamw params(%w) grads(%g) exp_avgs(%m) exp_avg_sqs(%v)
        step %step lr %lr betas(9.0e-01, 9.5e-01) eps 1.0e-08
        weight_decay 1.0e-01 : tensor<7x17xf32>
    ```

    Constraint OP-1: one gradient and two moments for each parameter.

    Constraint OP-3: moments of ui8 and f8E4M3FN have a scale each, and no others
    have; `maxima` has as many elements as all scales together.
  }];
}

def Fsdp_AdamOp : Fsdp_AdamLikeOp<"adam"> {
  let summary = "Adam with L2 weight decay on the shards of one group";
  let description = [{
    torch.optim.Adam (Kingma and Ba, arXiv:1412.6980): `weight_decay` times the
    parameter is added to the gradient. Text and constraints as `fsdp.adamw`.

    Example:

    ```mlir
    %new:3 = fsdp.adam params(%w) grads(%g) exp_avgs(%m) exp_avg_sqs(%v)
        step %step lr %lr betas(9.0e-01, 9.5e-01) eps 1.0e-08
        weight_decay 0.0 : tensor<7x17xf32>
    ```
  }];
}

def Fsdp_SgdOp : Fsdp_OptimizerOp<"sgd", [{
    ::llvm::SmallVector<::fsdp::StateUpdate> getUpdates() {
      ::fsdp::StateUpdate params{"parameter", getParams(), getNewParams()};
      if (getMomentum().isZero())
        return {params};
      return {params,
              {"momentum buffer", getMomentumBuffers(), getNewMomentumBuffers()},
              {::fsdp::kScales, getScales(), getNewScales()}};
    }
  }]> {
  let summary = "stochastic gradient descent on the shards of one group";
  let description = [{
    torch.optim.SGD with dampening 0: `m = momentum * m + g`, `p = p - lr * m`
    (nesterov: `p - lr * (g + momentum * m)`), where `g` includes
    `weight_decay * p`. Without momentum there are no buffers.

    Example:

    ```mlir
    %new:2 = fsdp.sgd params(%w) grads(%g) momentum_buffers(%m) lr %lr
        momentum 9.0e-01 weight_decay 0.0 : tensor<7x17xf32>
    ```

    Constraint OP-2: one gradient for each parameter, and as many momentum
    buffers if `momentum` is not 0, else none; of those that are codes OP-3 of
    `fsdp.adamw` holds. `step` is there for `rounding` alone.
  }];
  let arguments = (ins Variadic<AnyRankedTensor>:$params,
                       Variadic<AnyRankedTensor>:$grads,
                       Variadic<AnyRankedTensor>:$momentum_buffers,
                       Variadic<AnyRankedTensor>:$scales,
                       Optional<AnyRankedTensor>:$maxima,
                       Optional<AnyRankedTensor>:$step, AnyRankedTensor:$lr,
                       Optional<AnyRankedTensor>:$grad_scale,
                       Optional<AnyRankedTensor>:$found_inf,
                       F64Attr:$momentum, F64Attr:$weight_decay,
                       UnitAttr:$nesterov, OptionalAttr<I64Attr>:$rounding);
  let results = (outs Variadic<AnyRankedTensor>:$new_params,
                      Variadic<AnyRankedTensor>:$new_momentum_buffers,
                      Variadic<AnyRankedTensor>:$new_scales);
  let assemblyFormat = [{
    `params` `(` custom<Operands>($params) `)` `grads` `(` custom<Operands>($grads) `)`
    `momentum_buffers` `(` custom<Operands>($momentum_buffers) `)`
    (`scales` `(` $scales^ `)`)? (`maxima` $maxima^)? (`step` $step^)? `lr` $lr
    (`grad_scale` $grad_scale^)? (`found_inf` $found_inf^)?
    `momentum` $momentum `weight_decay` $weight_decay
    (`nesterov` $nesterov^)? (`rounding` $rounding^)?
    attr-dict `:` custom<SgdTypes>(type($params), type($grads),
        ref($momentum_buffers), type($momentum_buffers), ref($scales),
        type($scales), ref($maxima), type($maxima), ref($step), type($step),
        type($lr), ref($grad_scale), type($grad_scale), ref($found_inf),
        type($found_inf), type($new_params), type($new_momentum_buffers),
        type($new_scales))
  }];
  let hasVerifier = 1;
}

def Fsdp_BlockMaximaOp
    : Fsdp_Op<"block_maxima", [Pure, AttrSizedOperandSegments]> {
  let summary = "what blocks of moments will hold at most, of a rank's elements";
  let description = [{
    Before an optimizer of that `kind` whose blocks ranks share: for each block of each
    moment, in the order of `scales`, the greatest absolute value that this rank's
    elements of it will have after the update; 0 where it has none. The maximum over
    the ranks is what the block is coded by. `moments` are all of the optimizer's,
    one list behind the other, and `weight_decay` is what it has.

    Example:

    ```mlir
    %found = fsdp.block_maxima adamw params(%w) grads(%g) moments(%m, %v)
        scales(%ms, %vs) betas(9.0e-01, 9.5e-01) momentum 0.0 weight_decay 1.0e-01
        : (tensor<35x150xf32>, tensor<35x150xf32>, tensor<35x150xui8>,
           tensor<35x150xui8>, tensor<41xf32>, tensor<41xf32>) -> tensor<82xf32>
    ```

    Constraint BM-1: one gradient for each parameter, equally many moments for each,
    of ui8 or f8E4M3FN, with a scale each.

    Constraint BM-2: the result has one dim of as many elements of f32 as all
    scales together.
  }];
  let arguments = (ins Fsdp_OptimizerKindAttr:$kind,
                       Variadic<AnyRankedTensor>:$params,
                       Variadic<AnyRankedTensor>:$grads,
                       Variadic<AnyRankedTensor>:$moments,
                       Variadic<AnyRankedTensor>:$scales,
                       Optional<AnyRankedTensor>:$grad_scale,
                       F64Attr:$beta1, F64Attr:$beta2, F64Attr:$momentum,
                       F64Attr:$weight_decay);
  let results = (outs AnyRankedTensor:$maxima);
  let assemblyFormat = [{
    `` $kind `params` `(` $params `)` `grads` `(` $grads `)`
    `moments` `(` $moments `)` `scales` `(` $scales `)`
    (`grad_scale` $grad_scale^)? `betas` `(` $beta1 `,` $beta2 `)`
    `momentum` $momentum `weight_decay` $weight_decay attr-dict `:`
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
