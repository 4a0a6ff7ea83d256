//===- InputFile.h - What fsdp-opt is given ---------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TOOLS_FSDPOPT_INPUT_INPUTFILE_H
#define FSDP_TOOLS_FSDPOPT_INPUT_INPUTFILE_H

#include "tools/fsdp-opt/input/CommandLine.h"

#include <string>

namespace fsdp {

/// By name and first bytes; "-" is a program. Throws fsdp::Error:
/// FileNotReadable, NotARegularFile, BadUsage for model files of other names,
/// NotAProgram for weights, ProgramNotReadable for other files that are no
/// text.
InputKind classifyInput(const std::string &path);

/// A program of MLIR, text or bytecode. Text is not nested so deeply that its
/// parser would run out of its stack; bytecode is as MLIR's reader finds it.
/// Throws fsdp::Error, as above and FileImplausible.
std::string readProgramBytes(const std::string &path);

} // namespace fsdp

#endif // FSDP_TOOLS_FSDPOPT_INPUT_INPUTFILE_H
