//===- InputFile.h - What fsdp-opt is given ---------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TOOLS_FSDPOPT_INPUTFILE_H
#define FSDP_TOOLS_FSDPOPT_INPUTFILE_H

#include "tools/fsdp-opt/CommandLine.h"

#include <string>

namespace fsdp {

/// By name and first bytes; "-" is a program. Throws fsdp::Error:
/// FileNotReadable, NotARegularFile, BadUsage for model files of other names,
/// NotAProgram for weights, ProgramNotReadable for other files that are no
/// text.
InputKind classifyInput(const std::string &path);

/// A program of MLIR, text or bytecode, that its parser can be given: not
/// damaged as bytecode, nor nested so deeply that the parser would run out of
/// its stack. Throws fsdp::Error, as above and FileImplausible.
std::string readProgramBytes(const std::string &path,
                             const mlir::DialectRegistry &registry);

} // namespace fsdp

#endif // FSDP_TOOLS_FSDPOPT_INPUTFILE_H
