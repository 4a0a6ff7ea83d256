//===- OpsKernel.td - Operators as one kernel --------------------*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_OPS_KERNEL_TD
#define FSDP_OPS_KERNEL_TD

include "OpBase.td"

def Fsdp_KernelOp : Fsdp_Op<"kernel", [IsolatedFromAbove, NoMemoryEffect]> {
  let summary = "operators that run as one kernel";
  let description = [{
    Its body are the operators that it replaces, with the views between them; it
    means what these mean. Only what is yielded is ever in memory. `in_place` says of
    each input whether the kernel reads its elements for the same elements of results
    alone, so that one of these may lie in its place.

    Example:
    ```mlir
    %y = fsdp.kernel(%x, %r) in_place [true, false]
        : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> {
    ^bb0(%0: tensor<4x8xf32>, %1: tensor<4x8xf32>):
      %2 = aten.add.Tensor %0, %1 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
      %3 = aten.exp %2 : (tensor<4x8xf32>) -> tensor<4x8xf32>
      fsdp.yield %3 : tensor<4x8xf32>
    }
    ```

    Constraints:
    * K-1: the body takes what the op takes, and yields what it gives, type by type.
    * K-2: the body has operators of the aten dialect, `fsdp.constant`, and
      `fsdp.update` with rates alone, and yields what these make.
    * K-3: `in_place` has an entry for each input.
  }];
  let arguments = (ins Variadic<AnyRankedTensor>:$inputs,
                       DenseBoolArrayAttr:$in_place);
  let results = (outs Variadic<AnyRankedTensor>:$outputs);
  let regions = (region SizedRegion<1>:$body);
  let hasVerifier = 1;
  let assemblyFormat = [{
    `(` $inputs `)` `in_place` $in_place attr-dict `:` functional-type($inputs, $outputs) $body
  }];
  let extraClassDeclaration = [{
    ::mlir::Block &getBlock() { return getBody().front(); }
    /// Of the body, one for each result.
    ::mlir::OperandRange getYielded();
  }];
}

def Fsdp_YieldOp : Fsdp_Op<"yield", [Terminator, NoMemoryEffect, HasParent<"KernelOp">]> {
  let summary = "what a kernel leaves in memory";
  let description = [{
    Ends the body of `fsdp.kernel`.

    Example: `fsdp.yield %3 : tensor<4x8xf32>`
  }];
  let arguments = (ins Variadic<AnyRankedTensor>:$values);
  let assemblyFormat = "attr-dict ($values^ `:` type($values))?";
}

#endif // FSDP_OPS_KERNEL_TD
