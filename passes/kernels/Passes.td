//===- Passes.td - Operators as kernels ------------------*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_KERNELS_PASSES_TD
#define FSDP_PASSES_KERNELS_PASSES_TD

include "passes/PassBase.td"

def FuseKernels : Fsdp_ModulePass<"fsdp-fuse-kernels"> {
  let summary = "make operators that follow each other one kernel";
  let description = [{
    With `kernels = true` of `#fsdp.step`, operators whose elements a kernel can compute
    (passes/kernels/Program.h) join those that make their operands, as `fsdp.kernel`: what
    is between them is never in memory. A kernel stands where the last of its operators
    stood. An operator joins if

    * nothing between reads what the others make, nor overwrites or frees what they
      read;
    * no op between, nor the kernel itself, has more bytes alive than before, unless
      it stays below the program's highest point: no peak rises;
    * fewer bytes are read and written than apart.

    Before that, a product that is added to what dies in the sum becomes `aten.addmm`,
    which adds in its place (the gradients of one input of several layers), unless the
    peak would be higher for it.

    Input:

    ```mlir
    %0 = aten.silu(%g) : (tensor<8x32xf32>) -> tensor<8x32xf32>
    %1 = aten.mul.Tensor(%0, %u) : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x32xf32>
    ```

    Output:

    ```mlir
    %1 = fsdp.kernel(%g, %u) in_place [true, true]
        : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x32xf32> {
    ^bb0(%a: tensor<8x32xf32>, %b: tensor<8x32xf32>):
      %2 = aten.silu(%a) : (tensor<8x32xf32>) -> tensor<8x32xf32>
      %3 = aten.mul.Tensor(%2, %b) : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x32xf32>
      fsdp.yield %3 : tensor<8x32xf32>
    }
    ```

    Needs: ops in their final order, as in front of `fsdp-plan-memory`. Leaves: the same
    values in memory but for those between operators of a kernel.
  }];
}

#endif // FSDP_PASSES_KERNELS_PASSES_TD
