//===- SafeBytecode.cpp - Keep damaged bytecode away --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/SafeBytecode.h"

#include "tools/fsdp-opt/Diagnostics.h"

#include "mlir/Bytecode/BytecodeReader.h"
#include "mlir/Bytecode/BytecodeWriter.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/MemoryBufferRef.h"
#include "llvm/Support/raw_ostream.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace fsdp;
using namespace mlir;

// The first byte of the other process's answer.
static constexpr char kProgram = 'P', kRefusal = 'R';

/// What the child does. Writes its answer to `pipe`; never returns.
[[noreturn]] static void readInChild(const std::string &bytes,
                                     const std::string &name,
                                     const DialectRegistry &registry,
                                     int pipe) {
  // Stack dumps are of no use to a person.
  int null = open("/dev/null", O_WRONLY);
  dup2(null, STDOUT_FILENO);
  dup2(null, STDERR_FILENO);
  // Far more than sound programs need.
  rlim_t seconds = 20 + bytes.size() / 1'000'000;
  rlim_t memory = (rlim_t(4) << 30) + 200 * bytes.size();
  rlimit time = {seconds, seconds}, space = {memory, memory};
  setrlimit(RLIMIT_CPU, &time);
  setrlimit(RLIMIT_AS, &space);

  // Threads did not survive the fork.
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  llvm::raw_fd_ostream answer(pipe, /*shouldClose=*/true);
  DiagnosticCollector diagnostics(&context);
  ParserConfig config(&context);
  OwningOpRef<ModuleOp> module =
      parseSourceString<ModuleOp>(bytes, config, name);
  if (module) {
    answer << kProgram;
    // Fails for unknown versions of the format only; this one is the newest.
    if (failed(writeBytecodeToFile(*module, answer)))
      _exit(1);
  } else {
    Error error = diagnostics.makeError(
        ErrorId::ProgramNotReadable, "'" + name + "' holds no valid program");
    answer << kRefusal << error.what();
  }
  answer.flush();
  _exit(0);
}

static std::string readAll(int pipe) {
  std::string all;
  char block[1 << 16];
  for (;;) {
    ssize_t count = read(pipe, block, sizeof block);
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0)
      return all;
    all.append(block, static_cast<size_t>(count));
  }
}

std::string fsdp::makeSafe(std::string bytes, const std::string &name,
                           const DialectRegistry &registry) {
  if (!isBytecode(llvm::MemoryBufferRef(bytes, name)))
    return bytes;
  int ends[2];
  if (pipe(ends) != 0)
    throw Error(ErrorId::ProgramNotReadable,
                "'" + name + "' cannot be read: no pipe can be made");
  pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    readInChild(bytes, name, registry, ends[1]);
  }
  close(ends[1]);
  std::string answer = readAll(ends[0]);
  close(ends[0]);
  int status = 0;
  bool done = child > 0 && waitpid(child, &status, 0) == child &&
              WIFEXITED(status) && WEXITSTATUS(status) == 0;
  if (!done || answer.empty())
    throw Error(ErrorId::ProgramNotReadable,
                "'" + name +
                    "' holds no valid program: its bytecode is damaged");
  if (answer.front() == kRefusal)
    throw Error(ErrorId::ProgramNotReadable, answer.substr(1));
  answer.erase(0, 1);
  return answer;
}
