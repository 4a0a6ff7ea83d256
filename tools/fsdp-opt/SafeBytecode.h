//===- SafeBytecode.h - Keep damaged bytecode away --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TOOLS_FSDPOPT_SAFEBYTECODE_H
#define FSDP_TOOLS_FSDPOPT_SAFEBYTECODE_H

#include <string>

namespace mlir {
class DialectRegistry;
} // namespace mlir

namespace fsdp {

/// MLIR's reader of bytecode trusts its input: damaged bytes make it write
/// where it must not, or work for ever. So another process reads `bytes` and
/// hands back the program, written anew; this one reads only that. Text is
/// handed back as it is. Throws fsdp::Error (ProgramNotReadable).
std::string makeSafe(std::string bytes, const std::string &name,
                     const mlir::DialectRegistry &registry);

} // namespace fsdp

#endif // FSDP_TOOLS_FSDPOPT_SAFEBYTECODE_H
