//===- Passes.cpp - Passes on a program -----------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/driver/Tasks.h"

#include "support/Error.h"
#include "tools/fsdp-opt/compile/Artifact.h"
#include "tools/fsdp-opt/compile/Compile.h"
#include "tools/fsdp-opt/compile/DataInputs.h"
#include "tools/fsdp-opt/compile/Mode.h"
#include "tools/fsdp-opt/compile/Program.h"
#include "tools/fsdp-opt/input/Files.h"
#include "tools/fsdp-opt/input/InputFile.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

using namespace fsdp;
using namespace mlir;

/// What MLIR has printed as bytecode, as what was asked for. Unlike text, it is
/// parsed again in no time and keeps locations.
static std::string convert(const CommandLine &line, DialectRegistry &registry,
                           const std::string &bytecode) {
  MLIRContext context(registry);
  ParserConfig parser(&context);
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(bytecode, parser);
  if (!module)
    throw Error(ErrorId::NoArtifact,
                "an artifact, a picture or a captured program is one program; "
                "these options print none, or several");
  bool isArtifact = line.outputKind == OutputKind::Artifact;
  if (isArtifact || !line.memoryMap.empty())
    verifyAddresses(*module);
  bool keepsLocations = line.task == Task::Capture && line.printsToFile();
  std::string output =
      isArtifact ? makeArtifact(*module, line.output, line.kernelCode)
                 : printProgram(*module, line.outputKind, keepsLocations);
  writeMemoryMap(line, *module);
  return output;
}

static int run(const CommandLine &line, DialectRegistry &registry,
               const std::string &input, MlirOptMainConfig &config) {
  bool isConverted = line.outputKind == OutputKind::Artifact ||
                     !line.memoryMap.empty() ||
                     (line.task == Task::Capture && line.printsToFile());
  if (line.outputKind == OutputKind::Bytecode || isConverted)
    config.emitBytecode(true);
  std::string output;
  llvm::raw_string_ostream stream(output);
  if (failed(MlirOptMain(stream,
                         llvm::MemoryBuffer::getMemBuffer(input, line.input),
                         registry, config)))
    return 1;
  writeOutput(line.output,
              isConverted ? convert(line, registry, output) : output);
  return 0;
}

int fsdp::runPasses(const CommandLine &line, DialectRegistry &registry) {
  auto config = MlirOptMainConfig::createFromCLOptions();
  // Lists need no input, which may be a terminal.
  bool isList = config.shouldShowDialects() || config.shouldListPasses();
  return run(line, registry, isList ? "" : readProgramBytes(line.input),
             config);
}

int fsdp::captureModel(const CommandLine &line, DialectRegistry &registry,
                       MLIRContext &context) {
  OwningOpRef<ModuleOp> module = readProgram(context, line, nullptr);
  addModeNotes(*module, nullptr);
  warnOfUnread(*module);
  saveStage(line, "1-captured", *module);
  auto config = MlirOptMainConfig::createFromCLOptions();
  return run(line, registry, printProgram(*module, OutputKind::Bytecode),
             config);
}
