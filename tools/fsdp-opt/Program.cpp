//===- Program.cpp - Programs from and to files -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/Program.h"

#include "tools/fsdp-opt/CaptureLoader.h"
#include "tools/fsdp-opt/Diagnostics.h"
#include "tools/fsdp-opt/Files.h"
#include "tools/fsdp-opt/SafeBytecode.h"

#include "mlir/Bytecode/BytecodeWriter.h"
#include "mlir/IR/AsmState.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/raw_ostream.h"

using namespace fsdp;
using namespace mlir;

OwningOpRef<ModuleOp> fsdp::readProgram(MLIRContext &context,
                                        const CommandLine &line,
                                        CaptureMode mode,
                                        std::vector<OutputSummary> *outputs) {
  DiagnosticCollector diagnostics(&context);
  if (line.inputKind == InputKind::Model)
    return loadCaptureLibrary().capture(
        context, {line.input, line.inputs, {mode, line.outputs}}, outputs);
  ParserConfig config(&context);
  std::string name = line.input == "-" ? "standard input" : line.input;
  std::string bytes =
      makeSafe(readInput(line.input), name, context.getDialectRegistry());
  OwningOpRef<ModuleOp> module =
      parseSourceString<ModuleOp>(bytes, config, name);
  if (!module)
    throw diagnostics.makeError(ErrorId::ProgramNotReadable,
                                "'" + name + "' holds no valid program");
  return module;
}

std::string fsdp::printProgram(ModuleOp module, OutputKind kind) {
  std::string bytes;
  llvm::raw_string_ostream stream(bytes);
  if (kind == OutputKind::Bytecode) {
    // Only a version that the writer does not know makes this fail.
    if (failed(writeBytecodeToFile(module, stream)))
      throw Error(ErrorId::FileNotWritable,
                  "the program cannot be written as bytecode");
    return bytes;
  }
  module->print(stream, OpPrintingFlags());
  stream << '\n';
  return bytes;
}
