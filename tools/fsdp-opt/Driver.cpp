//===- Driver.cpp - What fsdp-opt does ----------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/Driver.h"

#include "tools/fsdp-opt/CommandLine.h"
#include "tools/fsdp-opt/Files.h"
#include "tools/fsdp-opt/Program.h"
#include "tools/fsdp-opt/Registration.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

#include <new>

using namespace fsdp;
using namespace mlir;

namespace {
/// Passes and options of MLIR on a program, as mlir-opt runs them. Returns
/// false after a failure, which MLIR has described.
bool runPlainOpt(const CommandLine &line, DialectRegistry &registry,
                 std::string input, const std::string &name) {
  auto config = MlirOptMainConfig::createFromCLOptions();
  if (line.outputKind == OutputKind::Bytecode)
    config.emitBytecode(true);
  std::string output;
  llvm::raw_string_ostream stream(output);
  if (failed(MlirOptMain(stream,
                         llvm::MemoryBuffer::getMemBufferCopy(input, name),
                         registry, config)))
    return false;
  writeOutput(line.output, output);
  return true;
}

int run(int argc, char **argv) {
  registerCommandLinePasses();
  DialectRegistry registry;
  registerDialects(registry);
  std::optional<CommandLine> line = parseCommandLine(argc, argv, registry);
  if (!line)
    return 0;
  if (line->isPlainOpt())
    return runPlainOpt(*line, registry, readInput(line->input), line->input)
               ? 0
               : 1;
  MLIRContext context(registry);
  OwningOpRef<ModuleOp> module = readProgram(context, *line);
  std::string program = printProgram(*module, OutputKind::Bytecode);
  return runPlainOpt(*line, registry, std::move(program), line->input) ? 0 : 1;
}
} // namespace

int fsdp::runDriver(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  try {
    return run(argc, argv);
  } catch (const Error &error) {
    llvm::errs() << error.format() << '\n';
    return error.exitStatus();
  }
}
