//===- Throughput.cpp - What a step takes of the data ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/train/Throughput.h"

#include "plan/plan_generated.h"

#include <algorithm>
#include <set>

using namespace fsdp;

/// Of a row; absent if it has none, or inputs differ.
static std::optional<int64_t> countTokens(const plan::PlanT &plan,
                                          const plan::ProgramT &program) {
  std::set<int64_t> lengths;
  for (const auto &binding : program.arguments) {
    if (binding->input < 0)
      continue;
    const plan::InputT &input = *plan.inputs[binding->input];
    bool isNumbers =
        input.dtype == plan::DType::i64 || input.dtype == plan::DType::i32;
    if (isNumbers && input.shape.size() == 2)
      lengths.insert(input.shape[1]);
  }
  return lengths.size() == 1 ? std::optional(*lengths.begin()) : std::nullopt;
}

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
  if (std::optional<int64_t> tokens = countTokens(session.plan(), program))
    report.tokensPerSecond = static_cast<double>(samples * *tokens) / seconds;
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
