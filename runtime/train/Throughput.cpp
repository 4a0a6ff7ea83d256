//===- Throughput.cpp - What a step takes of the data ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/train/Throughput.h"

#include "plan/Tokens.h"

#include <algorithm>

using namespace fsdp;

StepReport Throughput::report(const StepResult &result, double seconds) {
  ++made;
  // The first step warms up; alone it is all that is known.
  if (made == 2)
    total = 0;
  total += seconds;
  double mean = total / static_cast<double>(std::max<uint64_t>(made - 1, 1));
  StepReport report{result,
                    seconds,
                    static_cast<double>(samples) / seconds,
                    std::nullopt,
                    mean * static_cast<double>(steps - made),
                    session.memory()};
  // All micro-batches of a step have the same shapes.
  auto found = std::ranges::find(session.plan().programs, result.program,
                                 [](const auto &each) { return each->name; });
  if (found == session.plan().programs.end())
    return report;
  const plan::ProgramT &program = **found;
  if (std::optional<TokenCount> tokens = countTokens(session.plan(), program))
    report.tokensPerSecond =
        static_cast<double>(samples * tokens->perRow) / seconds;
  if (program.model_flops > 0) {
    double flops =
        program.model_flops * static_cast<double>(session.batchesPerStep());
    report.flopsPerSecond =
        flops / static_cast<double>(session.worldSize()) / seconds;
    if (peakFlops > 0)
      report.utilization = *report.flopsPerSecond / peakFlops;
  }
  return report;
}
