//===- LowPrecision.td - Narrow types of shards and wires --*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_SHARD_LOWPRECISION_TD
#define FSDP_PASSES_SHARD_LOWPRECISION_TD

include "passes/PassBase.td"

def Float8Linears : Fsdp_ModulePass<"fsdp-float8-linears"> {
  let summary = "let linear layers multiply numbers of eight bits";
  let description = [{
    Of the layers that `#fsdp.float8` chooses, those whose weights have sizes that are
    multiples of 16 (or all, with `pad`). A layer is what multiplies by a transposed
    matrix, the parameter `weight` of the module that the product is from; backward's
    products are those of the same module.

    With the recipe `tensorwise` each operand has one scale: the greatest number of the
    type over the tensor's greatest absolute value, computed each time. Numbers of forward
    are cast to e4m3, gradients to e5m2; products are `aten._scaled_mm`, with results of
    the type that they had. Backward reads what forward cast. With `rowwise` the numbers
    that a product sums up have a scale, rounded down to a power of two; all are e4m3, and
    the product is one in f32 of what was cast, times both scales. With `mxfp8` each 32
    neighbours of these have one, and the product is of what was cast times its scales;
    sizes that are summed are multiples of 32. GPUs' products take scales of rows, and
    from sm_100 on those of blocks, as e8m0 and in tiles of 128 rows by four blocks. A
    bias is added in its own type.

    With `all_gather` it is the parameter itself that is cast, also where mixed precision
    computes with it in another type.

    Input:

    ```mlir
    %t = aten.t(%w) : (tensor<32x16xf32>) -> tensor<16x32xf32, #aten.strides<1, 16>>
    %y = aten.mm(%x, %t) : … -> tensor<8x32xf32>
    ```

    Output:

    ```mlir
    %m = fsdp.amax %x : tensor<8x16xf32> -> tensor<f32>
    %s = fsdp.scale %m to f8E4M3FN least 1.0e-12 : tensor<f32>
    %i = aten.reciprocal(%s) : (tensor<f32>) -> tensor<f32>
    %x8 = fsdp.encode %x by %s : … -> tensor<8x16xf8E4M3FN>
    …
    %t8 = aten.t(%w8) : …
    %y = aten._scaled_mm(%x8, %t8, %i, %wi, out_dtype = f32) : … -> tensor<8x32xf32>
    ```

    Each cast is a row of the module's `fsdp.casts`.

    Needs: a captured program. Leaves: a captured program.
  }];
}

def QuantizeBases : Fsdp_ModulePass<"fsdp-quantize-bases"> {
  let summary = "hold frozen matrices in blocks of codes";
  let description = [{
    Of the modules that `#fsdp.quantize` chooses, each frozen matrix of a linear layer in
    f32, bf16 or f16, and each whose own name it gives, becomes a state of bytes: blocks of
    neighbouring elements of the whole tensor, as many as it says, in rows of a scale and
    codes each, or of 256 with coded scales (support/BlockForm.h). Programs read what
    `fsdp.dequantize` makes of it. Names, first value and exports stay those of the
    model's tensor, which the state knows as `quantized`. Embeddings stay as they are. A
    parameter in f32 that is cast to a half type is dequantized to that, which rounds
    alike.

    Input:

    ```mlir
    fsdp.state frozen @base.weight : tensor<32x64xbf16>
    func.func @"train/step"(%w: tensor<32x64xbf16> {fsdp.state = @base.weight}, …) {
      %t = aten.t(%w) : …
    ```

    Output:

    ```mlir
    fsdp.state frozen @base.weight : tensor<32x36xui8> quantized <nf4 of tensor<32x64xbf16>>
    func.func @"train/step"(%b: tensor<32x36xui8> {fsdp.state = @base.weight}, …) {
      %w = fsdp.dequantize %b nf4 : tensor<32x36xui8> -> tensor<32x64xbf16>
      %t = aten.t(%w) : …
    ```

    Each parameter counts in a row of the module's `fsdp.casts`.

    Needs: a captured program. Leaves: a captured program.
  }];
}

def DequantizeAtReaders : Fsdp_ModulePass<"fsdp-dequantize-at-readers"> {
  let summary = "dequantize anew for each op that reads the numbers";
  let description = [{
    What `fsdp.dequantize` makes is as large as the tensor in its own type, and bytes are
    what is worth keeping: it is made again, with the views and casts that lead to it, in front of
    each op that reads it, and lives for that op alone. Backward then reads the bytes,
    which `fsdp-reshard-after-forward` gathers again, or which stay.

    Input:

    ```mlir
    %w = fsdp.dequantize %b nf4 : …
    %t = aten.t(%w) : …
    %y = aten.mm(%x, %t) : …
    …
    %g = aten.mm(%gy, %w) : …
    ```

    Output:

    ```mlir
    %w = fsdp.dequantize %b nf4 : …
    %t = aten.t(%w) : …
    %y = aten.mm(%x, %t) : …
    …
    %v = fsdp.dequantize %b nf4 : …
    %g = aten.mm(%gy, %v) : …
    ```

    Needs: logical collectives. Must run behind `fsdp-recompute`, whose copies are readers,
    and before `fsdp-reshard-after-forward`.
  }];
}

def Float8Gathers : Fsdp_ModulePass<"fsdp-float8-gathers"> {
  let summary = "gather parameters in eight bits";
  let description = [{
    A gathered parameter that is scaled and cast to eight bits is scaled and cast on its
    shard, where `#fsdp.float8` says `all_gather`: one byte an element travels. The
    greatest value of the parameter is that of all shards', and the scale the same as
    before; padding is zero and no greatest value. All maxima stand at the head of the
    program, so that they travel together.

    Input:

    ```mlir
    %f = fsdp.all_gather %w dim 0 over #shard : tensor<16x16xf32> -> tensor<32x16xf32>
    %m = fsdp.amax %f : tensor<32x16xf32> -> tensor<f32>
    %s = fsdp.scale %m to f8E4M3FN least 1.0e-12 : tensor<f32>
    %f8 = fsdp.encode %f by %s : …
    ```

    Output:

    ```mlir
    %n = fsdp.amax %w : tensor<16x16xf32> -> tensor<f32>
    %m = fsdp.all_reduce max %n over #shard for scale : tensor<f32>
    %s = fsdp.scale %m to f8E4M3FN least 1.0e-12 : tensor<f32>
    %w8 = fsdp.encode %w by %s : … -> tensor<16x16xf8E4M3FN>
    %f8 = fsdp.all_gather %w8 dim 0 over #shard : … -> tensor<32x16xf8E4M3FN>
    ```

    Needs: gathers of parameters. Leaves: no gather of what is only cast to eight bits.
  }];
}

def MoveCastsToShards : Fsdp_ModulePass<"fsdp-move-casts-to-shards"> {
  let summary = "cast shards before they are gathered, not whole tensors after";
  let description = [{
    If a gathered parameter is only read by one cast to a type that is not
    wider, each rank casts its own rows and fewer bytes travel.

    Capture ends each gradient with casts to the type in which it is to be
    reduced (`reduce` of its state) and from there to the parameter's own. The
    first stands before the reductions and stays there; the second moves behind
    the last of them, where each rank casts its own rows.

    Input:

    ```mlir
    %f = fsdp.all_gather %w dim 0 over #shard : tensor<7x17xf32> -> tensor<13x17xf32>
    %c = aten._to_copy(%f, dtype = bf16) : (tensor<13x17xf32>) -> tensor<13x17xbf16>
    ```

    Output:

    ```mlir
    %c = aten._to_copy(%w, dtype = bf16) : (tensor<7x17xf32>) -> tensor<7x17xbf16>
    %f = fsdp.all_gather %c dim 0 over #shard : tensor<7x17xbf16> -> tensor<13x17xbf16>
    ```

    Input, with `fsdp.state parameter @w : tensor<13x17xf32> … gradient <reduce bf16>`:

    ```mlir
    %o = aten._to_copy(%g, dtype = f32) : (tensor<13x17xbf16>) -> tensor<13x17xf32>
    %s = fsdp.reduce_scatter avg %o dim 0 over #shard of @w
        : tensor<13x17xf32> -> tensor<7x17xf32>
    ```

    Output:

    ```mlir
    %r = fsdp.reduce_scatter avg %g dim 0 over #shard of @w
        : tensor<13x17xbf16> -> tensor<7x17xbf16>
    %s = aten._to_copy(%r, dtype = f32) : (tensor<7x17xbf16>) -> tensor<7x17xf32>
    ```

    Needs: logical collectives. Must run before `fsdp-reshard-after-forward`,
    which gathers again what is gathered.
  }];
}

def NarrowWires : Fsdp_ModulePass<"fsdp-narrow-wires"> {
  let summary = "let gradients travel in fewer bytes than they are summed in";
  let description = [{
    With `reduce_wire` (`#fsdp.step`) each gradient that is reduced in f32 is rounded to
    bf16 for its way to the rank whose rows it is summed to. That rank sums in f32, and
    what comes out is not rounded again: half the bytes of a reduction in f32, and
    better sums than a reduction in bf16. Sums over replicas (`all_reduce`) stay as
    they are. Where collectives sum in the type that travels, as on GPUs,
    `fsdp-lower-wires` makes an exchange of parts and a sum of it.

    With `float8` it is e4m3, times a power of two which is the same on all ranks that
    are summed: the greatest by which none of their numbers leaves the type. Sums are
    divided by it. The greatest values of a bucket's gradients are exchanged together,
    so all members stand where the last of them is.

    The casts are no part of what was captured, and rows of the module's `fsdp.casts`:
    the comparison looks through them where the reduction's result is wider than its
    operand.

    Input:

    ```mlir
    %s = fsdp.reduce_scatter avg %g dim 0 over #shard of @w
        : tensor<13x17xf32> -> tensor<4x17xf32>
    ```

    Output:

    ```mlir
    %h = aten._to_copy(%g, dtype = bf16) : (tensor<13x17xf32>) -> tensor<13x17xbf16>
    %s = fsdp.reduce_scatter avg %h dim 0 over #shard of @w
        : tensor<13x17xbf16> -> tensor<4x17xf32>
    ```

    Output, with `float8`:

    ```mlir
    %n = fsdp.amax %g : tensor<13x17xf32> -> tensor<f32>
    %m = fsdp.all_reduce max %n over #shard for scale : tensor<f32>
    %p = fsdp.scale %m to f8E4M3FN least 0x1p-100 power_of_two : tensor<f32>
    %h = fsdp.encode %g by %p : … -> tensor<13x17xf8E4M3FN>
    %t = fsdp.reduce_scatter avg %h dim 0 over #shard of @w
        : tensor<13x17xf8E4M3FN> -> tensor<4x17xf32>
    %s = fsdp.decode %t by %p : tensor<4x17xf32>, tensor<f32>
    ```

    Needs: sharded programs whose gradients have found their types. Leaves: the same.
  }];
}

#endif // FSDP_PASSES_SHARD_LOWPRECISION_TD
