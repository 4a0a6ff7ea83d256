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

def WidenProducts : Fsdp_ModulePass<"fsdp-widen-products"> {
  let summary = "write gradients in float32 where they are multiplied";
  let description = [{
    With `kernels = true` of `#fsdp.step`, on devices whose products of bf16 and f16 may
    be written in f32: a product that one cast to f32 alone reads, perhaps through views,
    is written in f32 (`aten.mm.dtype`, `aten.bmm.dtype`; `aten._scaled_mm` whose scales
    are of whole tensors), and there is no cast, if what the cast gives is a gradient on its way to a reduction of gradients or to a running
    sum. Numbers are those without the rounding in between.

    Casts that kernels of several operators make stay theirs: these read gradients in
    half the bytes. A product is left as it is where the program would have a higher peak
    for it.

    Input:

    ```mlir
    %g = aten.mm(%dy, %x) : (tensor<8x4xbf16>, tensor<4x6xbf16>) -> tensor<8x6xbf16>
    %f = aten._to_copy(%g, dtype = f32) : (tensor<8x6xbf16>) -> tensor<8x6xf32>
    %r = fsdp.start reduce_scatter avg "w"(%f) dims [0] over #shard on reduce for gradient
        : tensor<8x6xf32> -> tensor<4x6xf32>
    ```

    Output:

    ```mlir
    %f = aten.mm.dtype(%dy, %x, out_dtype = f32)
        : (tensor<8x4xbf16>, tensor<4x6xbf16>) -> tensor<8x6xf32>
    %r = fsdp.start reduce_scatter avg "w"(%f) dims [0] over #shard on reduce for gradient
        : tensor<8x6xf32> -> tensor<4x6xf32>
    ```

    Needs: kernels, as `fsdp-fuse-kernels` leaves them, in front of `fsdp-plan-memory`.
    Leaves: no cast of such a gradient.
  }];
}

#endif // FSDP_PASSES_KERNELS_PASSES_TD
