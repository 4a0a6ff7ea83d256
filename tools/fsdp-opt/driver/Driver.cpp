//===- Driver.cpp - What fsdp-opt does ----------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/driver/Driver.h"

#include "support/Exceptions.h"
#include "tools/fsdp-opt/compare/Compare.h"
#include "tools/fsdp-opt/compile/Worlds.h"
#include "tools/fsdp-opt/driver/Registration.h"
#include "tools/fsdp-opt/driver/Tasks.h"
#include "tools/fsdp-opt/explain/Explain.h"
#include "tools/fsdp-opt/input/Diagnostics.h"
#include "tools/fsdp-opt/input/Files.h"

#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/raw_ostream.h"

#include <unistd.h>

using namespace fsdp;
using namespace mlir;

namespace {
/// MLIR's reader of bytecode ends the process over sizes that make no sense;
/// to a person that is a file like any other that cannot be read.
[[noreturn]] void refuseFatal(void *, const char *reason, bool) {
  std::string message =
      Error(ErrorId::ProgramNotReadable,
            std::string("the program cannot be processed: ") + reason)
          .format() +
      "\n";
  // As little as possible: memory may be used up.
  [[maybe_unused]] ssize_t written =
      write(STDERR_FILENO, message.data(), message.size());
  _exit(getErrorInfo(ErrorId::ProgramNotReadable).exitStatus);
}

int compileForWorlds(const CommandLine &line, MLIRContext &context) {
  CompiledWorlds compiled = compileWorlds(context, line);
  if (!line.report.empty())
    writeOutput(line.report, compiled.report);
  writeOutput(line.output, compiled.artifact);
  return 0;
}

int print(const std::string &text) {
  writeOutput("-", text);
  return 0;
}

int runTask(const CommandLine &line, DialectRegistry &registry) {
  if (line.task == Task::Opt) // has a context of its own
    return runPasses(line, registry);
  if (line.task == Task::ReadConfig)
    return readConfigFile(line);
  MLIRContext context(registry);
  switch (line.task) {
  case Task::Opt:
  case Task::ReadConfig:
    break;
  case Task::Print:
    return printArtifactFile(line);
  case Task::Predict:
    return predictArtifact(line);
  case Task::Capture:
    return captureModel(line, registry, context);
  case Task::Compile:
    return compileModel(line, context);
  case Task::CompileWorlds:
    return compileForWorlds(line, context);
  case Task::Explain:
    return explain(context, line);
  case Task::Compare:
    return print(compareConfigs(context, line));
  case Task::Simulate:
    return print(simulateWorlds(context, line));
  }
  llvm_unreachable("a task has a function");
}

int run(int argc, char **argv) {
  registerCommandLinePasses();
  DialectRegistry registry;
  registerDialects(registry);
  std::optional<CommandLine> line = parseCommandLine(argc, argv, registry);
  if (!line)
    return 0;
  // Better refused now than after the work.
  for (const std::string &output :
       {line->output, line->report, line->memoryMap})
    checkOutput(output);
  for (const std::string &output : line->planViews)
    checkOutput(output);
  return runTask(*line, registry);
}
} // namespace

int fsdp::runDriver(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  llvm::install_fatal_error_handler(refuseFatal);
  // InitLLVM has set one of its own.
  llvm::remove_bad_alloc_error_handler();
  llvm::install_bad_alloc_error_handler(refuseFatal);
  int status = 0;
  try {
    status = run(argc, argv);
  } catch (...) {
    Error error =
        toError(std::current_exception(), "fsdp-opt: ", ErrorId::StageRefused);
    llvm::errs() << error.format() << '\n';
    status = error.exitStatus();
  }
  printNotes();
  return status;
}
