//===- PassBase.td - What all passes share -----------------*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_PASSBASE_TD
#define FSDP_PASSES_PASSBASE_TD

include "mlir/Pass/PassBase.td"

class Fsdp_ModulePass<string argument> : Pass<argument, "::mlir::ModuleOp"> {
  let dependentDialects = ["::fsdp::FsdpDialect", "::fsdp::aten::AtenDialect"];
}

#endif // FSDP_PASSES_PASSBASE_TD
