//===- DataInputs.h - Which inputs take tokens ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TOOLS_FSDPOPT_COMPILE_DATAINPUTS_H
#define FSDP_TOOLS_FSDPOPT_COMPILE_DATAINPUTS_H

#include "tools/fsdp-opt/config/Config.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace fsdp {

/// An input of a program.
struct NamedInput {
  std::string name;
  mlir::RankedTensorType type;
};
llvm::SmallVector<NamedInput> getNamedInputs(mlir::func::FuncOp program);

/// Names of inputs that nothing in any of the captured programs reads.
std::vector<std::string> listUnread(mlir::ModuleOp module);
/// Warns of them.
void warnOfUnread(mlir::ModuleOp module);

/// Whether an input of that type can be rows of tokens.
bool takesTokens(mlir::RankedTensorType type);

/// Checks that the inputs that `data` of the config names exist and can take
/// tokens. Throws fsdp::Error (ConfigBadValue).
void checkDataInputs(mlir::ModuleOp module, const Config &config);

} // namespace fsdp

#endif // FSDP_TOOLS_FSDPOPT_COMPILE_DATAINPUTS_H
