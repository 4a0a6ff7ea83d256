//===- fsdp-opt.cpp - The compiler's command ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/driver/Driver.h"

#include "support/EndProcess.h"

#include "llvm/Support/raw_ostream.h"

int main(int argc, char **argv) {
  int status = fsdp::runDriver(argc, argv);
  llvm::outs().flush();
  // Its destructor says that not all could be written.
  return llvm::outs().has_error() ? status : fsdp::endProcess(status);
}
