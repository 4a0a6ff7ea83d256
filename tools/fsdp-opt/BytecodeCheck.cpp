//===- BytecodeCheck.cpp - Keep damaged bytecode away -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/BytecodeCheck.h"

#include "runtime/support/Error.h"

#include "mlir/Bytecode/BytecodeReader.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/MemoryBufferRef.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace fsdp;
using namespace mlir;

/// What the child does; never returns.
[[noreturn]] static void readAndExit(const std::string &bytes,
                                     const DialectRegistry &registry) {
  // Stack dumps of a crash are of no use to a person.
  int null = open("/dev/null", O_WRONLY);
  dup2(null, STDOUT_FILENO);
  dup2(null, STDERR_FILENO);
  // Threads did not survive the fork.
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  ParserConfig config(&context);
  (void)parseSourceString<ModuleOp>(bytes, config).release();
  _exit(0);
}

void fsdp::checkBytecode(const std::string &bytes, const std::string &name,
                         const DialectRegistry &registry) {
  if (!isBytecode(llvm::MemoryBufferRef(bytes, name)))
    return;
  pid_t child = fork();
  if (child == 0)
    readAndExit(bytes, registry);
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status) ||
      WEXITSTATUS(status) != 0)
    throw Error(ErrorId::ProgramNotReadable,
                "'" + name +
                    "' holds no valid program: its bytecode is damaged");
}
