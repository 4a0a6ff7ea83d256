//===- OpsPlan.td - Addresses ------------------------------------*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_OPS_PLAN_TD
#define FSDP_OPS_PLAN_TD

include "OpBase.td"

// Addresses are not ops: a planned op carries `fsdp.at = array<i64: ...>`, one
// byte offset into the rank's arena for each tensor that it owns (views, waits
// and replays own none; a start owns what it promises), a state its `at`.

def Fsdp_ZeroPaddingOp : Fsdp_Op<"zero_padding", [Fsdp_Scheduled]> {
  let summary = "zero the padding rows behind a gradient";
  let description = [{
    A gradient that is reduce-scattered, or cut into parts that ranks exchange, is planned with room for size * ceil(d /
    size) rows; its slot held other data before, so the rows beyond d are zeroed
    before the transfer starts (invariant P).

    Example: `fsdp.zero_padding %g dim 0 over #shard : tensor<13x17xf32>`

    Constraint ZP-1: the dim exists.
  }];
  let arguments = (ins AnyRankedTensor:$tensor, I64Attr:$dim, Fsdp_Group:$group);
  let hasVerifier = 1;
  let assemblyFormat = "$tensor `dim` $dim `over` $group attr-dict `:` type($tensor)";
}

def Fsdp_SumPartsOp : Fsdp_Op<"sum_parts", [Pure]> {
  let summary = "the sum of the parts that all ranks gave";
  let description = [{
    Behind an `all_to_all`: of the operand's equal parts along dim 0, the first plus the
    second and so on, in f32, as a reduction of them would have formed it. Parts are
    divided by `pre` before, the sum by `post` (RD-1).

    Example:

    ```mlir
    %s = fsdp.sum_parts %p post 2.0 : tensor<14x17xbf16> -> tensor<7x17xf32>
    ```

    Constraint SP-1: a result of f32, operands of f32, bf16, f16 or f8E4M3FN, which have so
    many times the result's rows and its other dims.
  }];
  let arguments = (ins AnyRankedTensor:$parts, OptionalAttr<F64Attr>:$pre,
                       OptionalAttr<F64Attr>:$post);
  let results = (outs AnyRankedTensor:$sum);
  let assemblyFormat = [{
    $parts (`pre` $pre^)? (`post` $post^)? attr-dict `:` type($parts) `->` type($sum)
  }];
  let extraClassDeclaration = [{
    /// How many parts there are.
    int64_t getCount() {
      return getSum().getType().getDimSize(0) == 0
                 ? 1
                 : getParts().getType().getDimSize(0) /
                       getSum().getType().getDimSize(0);
    }
  }];
  let hasVerifier = 1;
}

#endif // FSDP_OPS_PLAN_TD
