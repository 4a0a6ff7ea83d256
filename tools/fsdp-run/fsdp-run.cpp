//===- fsdp-run.cpp - Trains with a compiled step -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-run/Options.h"

#include "runtime/flights/CompareFlights.h"
#include "support/EndProcess.h"
#include "support/Exceptions.h"

#include <iostream>

static int run(int argc, char **argv) {
  try {
    std::optional<fsdp::RunRequest> options = fsdp::parseOptions(argc, argv);
    if (!options)
      return 0;
    if (!options->compareRecords.empty())
      return fsdp::printComparison(options->compareRecords) ? 0 : 1;
    if (options->calibrate)
      fsdp::calibrate(*options->calibrate);
    else if (options->isDryRun)
      fsdp::dryRun(options->launch);
    else
      fsdp::train(options->launch, options->train);
    return 0;
  } catch (...) {
    fsdp::Error error = fsdp::toError(
        std::current_exception(), "fsdp-run: ", fsdp::ErrorId::KernelFailed);
    std::cerr << error.format() << std::endl;
    return error.exitStatus();
  }
}

int main(int argc, char **argv) { return fsdp::endProcess(run(argc, argv)); }
