//===- BytecodeCheck.h - Keep damaged bytecode away -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TOOLS_FSDPOPT_BYTECODECHECK_H
#define FSDP_TOOLS_FSDPOPT_BYTECODECHECK_H

#include <string>

namespace mlir {
class DialectRegistry;
} // namespace mlir

namespace fsdp {

/// MLIR's reader of bytecode trusts its input: damaged bytes make it write
/// where it must not. So another process reads it first. Throws fsdp::Error
/// (ProgramNotReadable) if that process dies of it; that it reports errors is
/// left to the reading proper. Text is not read at all.
void checkBytecode(const std::string &bytes, const std::string &name,
                   const mlir::DialectRegistry &registry);

} // namespace fsdp

#endif // FSDP_TOOLS_FSDPOPT_BYTECODECHECK_H
