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
    A gradient that is reduce-scattered is planned with room for size * ceil(d /
    size) rows; its slot held other data before, so the rows beyond d are zeroed
    before the transfer starts (invariant P).

    Example: `fsdp.zero_padding %g dim 0 over #shard : tensor<13x17xf32>`

    Constraint ZP-1: the dim exists.
  }];
  let arguments = (ins AnyRankedTensor:$tensor, I64Attr:$dim, Fsdp_Group:$group);
  let hasVerifier = 1;
  let assemblyFormat = "$tensor `dim` $dim `over` $group attr-dict `:` type($tensor)";
}

#endif // FSDP_OPS_PLAN_TD
