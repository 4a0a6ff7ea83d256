//===- Types.td - Types of the fsdp dialect ----------------------*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TYPES_TD
#define FSDP_TYPES_TD

include "Dialect.td"
include "mlir/IR/AttrTypeBase.td"

class Fsdp_Type<string name, string typeMnemonic>
    : TypeDef<Fsdp_Dialect, name> {
  let mnemonic = typeMnemonic;
}

def Fsdp_Future : Fsdp_Type<"Future", "future"> {
  let summary = "tensors that one transfer is still producing";
  let description = [{
    Made by a start op, consumed by exactly one `fsdp.wait`, which yields the
    tensors, all ranked. One future stands for a whole bucket.

    Example: `!fsdp.future<tensor<13x17xf32>, tensor<13xf32>>`
  }];
  let parameters = (ins ArrayRefParameter<"::mlir::Type">:$tensors);
  let assemblyFormat = "`<` $tensors `>`";
  let genVerifyDecl = 1;
}

#endif // FSDP_TYPES_TD
