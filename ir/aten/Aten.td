//===- Aten.td - The aten dialect --------------------------------*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_ATEN_TD
#define FSDP_ATEN_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/TensorEncoding.td"

def Aten_Dialect : Dialect {
  let name = "aten";
  let summary = "Every operator that LibTorch dispatches";
  let description = [{
    One op for each overload, made from a table instead of from ODS: see
    docs/Rationale/Aten.md.
  }];
  let cppNamespace = "::fsdp::aten";
  let useDefaultAttributePrinterParser = 1;
  let extraClassDeclaration = [{
    void registerAttributes();
    void registerOps();
  }];
}

def Aten_Strides : AttrDef<Aten_Dialect, "Strides",
    [DeclareAttrInterfaceMethods<VerifiableTensorEncoding>]> {
  let mnemonic = "strides";
  let summary = "where a tensor's elements lie, if it is not contiguous";
  let description = [{
    The encoding of a ranked tensor: one stride for each dim, in elements.
    Contiguous tensors have no encoding, so that equal layouts are equal types.

    Example: `tensor<17x13xbf16, #aten.strides<1, 17>>`

    Constraints: SD-1: one stride for each dim; SD-2: not contiguous.
  }];
  let parameters = (ins ArrayRefParameter<"int64_t">:$strides);
  let assemblyFormat = "`<` $strides `>`";
}

#endif // FSDP_ATEN_TD
