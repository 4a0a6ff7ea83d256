//===- OpsEncoding.td - Tensors in narrow types ------------------*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_OPS_ENCODING_TD
#define FSDP_OPS_ENCODING_TD

include "OpBase.td"

// A tensor in eight bits is one times a scale, cast; the scale is of the greatest
// absolute value of the whole tensor, wherever its parts lie. The ops say what they
// mean until `fsdp-lower-encodings`, so that nobody has to recognise it.

def Fsdp_AmaxOp : Fsdp_Op<"amax", [Pure]> {
  let summary = "the greatest absolute value of a tensor";
  let description = [{
    In f32: of all of the tensor, or of what lies along a dim, which stays as a dim
    of one.

    Example:

    ```mlir
    %m = fsdp.amax %w : tensor<13x17xbf16> -> tensor<f32>
    %r = fsdp.amax %w along 1 : tensor<13x17xf32> -> tensor<13x1xf32>
    ```

    Constraint EN-1: the result is of f32, and of no dims or of the operand's with
    one element along the dim.
  }];
  let arguments = (ins AnyRankedTensor:$input, OptionalAttr<I64Attr>:$dim);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    $input (`along` $dim^)? attr-dict `:` type($input) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Fsdp_ScaleOp
    : Fsdp_Op<"scale", [Pure, AllTypesMatch<["amax", "result"]>]> {
  let summary = "by what numbers are multiplied for a narrow type";
  let description = [{
    So that their greatest absolute value, which is taken for `least` if it is
    smaller, becomes the greatest number of the type; or by the next lower power of
    two.

    Example:

    ```mlir
    %s = fsdp.scale %m to f8E4M3FN least 1.000000e-12 : tensor<f32>
    %t = fsdp.scale %n to f8E5M2 least 1.000000e-12 power_of_two : tensor<f32>
    ```

    Constraints: EN-2: the type is f8E4M3FN or f8E5M2; EN-3: numbers are of f32.
  }];
  let arguments = (ins AnyRankedTensor:$amax, TypeAttr:$element, F64Attr:$least,
                       UnitAttr:$power_of_two);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    $amax `to` $element `least` $least (`power_of_two` $power_of_two^)? attr-dict
    `:` type($amax)
  }];
  let hasVerifier = 1;
}

def Fsdp_EncodeOp : Fsdp_Op<"encode", [Pure]> {
  let summary = "a tensor times its scale, in a narrow type";
  let description = [{
    Multiplied in f32 and cast to the result's type.

    Example:

    ```mlir
    %c = fsdp.encode %w by %s
        : tensor<13x17xbf16>, tensor<f32> -> tensor<13x17xf8E4M3FN>
    ```

    Constraints: EN-2 of the result, EN-3 of the scale; EN-4: the result has the
    operand's shape, and the scale one number or one for each row or column.
  }];
  let arguments = (ins AnyRankedTensor:$input, AnyRankedTensor:$scale);
  let results = (outs AnyRankedTensor:$code);
  let assemblyFormat = [{
    $input `by` $scale attr-dict `:` type($input) `,` type($scale) `->` type($code)
  }];
  let hasVerifier = 1;
}

def Fsdp_DecodeOp
    : Fsdp_Op<"decode", [Pure, AllTypesMatch<["sums", "result"]>,
                         ForwardingOpInterface]> {
  let summary = "what travelled in a narrow type, divided by its scale";
  let description = [{
    The sums of what ranks encoded by one scale, in f32: with it the way of a
    gradient is over, and what came out is its sum.

    Example:

    ```mlir
    %c = fsdp.encode %g by %s : tensor<13x17xf32>, tensor<f32> -> tensor<13x17xf8E4M3FN>
    %r = fsdp.reduce_scatter sum %c dim 0 over #shard of @fc1.weight
        : tensor<13x17xf8E4M3FN> -> tensor<7x17xf32>
    %d = fsdp.decode %r by %s : tensor<7x17xf32>, tensor<f32>
    ```

    Constraint EN-3 of the scale, which is one number, and of the sums.
  }];
  let arguments = (ins AnyRankedTensor:$sums, AnyRankedTensor:$scale);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    $sums `by` $scale attr-dict `:` type($sums) `,` type($scale)
  }];
  let hasVerifier = 1;
}

#endif // FSDP_OPS_ENCODING_TD
