//===- AttributeBase.td - What every attribute is made of --------*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_ATTRIBUTE_BASE_TD
#define FSDP_ATTRIBUTE_BASE_TD

include "Dialect.td"
include "mlir/IR/AttrTypeBase.td"

class Fsdp_Attr<string name, string attrMnemonic, list<Trait> traits = []>
    : AttrDef<Fsdp_Dialect, name, traits> {
  let mnemonic = attrMnemonic;
}

#endif // FSDP_ATTRIBUTE_BASE_TD
