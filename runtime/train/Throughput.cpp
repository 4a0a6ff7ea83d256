//===- Throughput.cpp - What a step takes of the data ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/train/Throughput.h"

#include "plan/plan_generated.h"

#include <algorithm>
#include <set>

using namespace fsdp;

StepSize fsdp::getStepSize(const Session &session) {
  StepSize size{session.samplesPerStep(), std::nullopt};
  std::set<int64_t> lengths;
  for (const auto &input : session.plan().inputs) {
    bool isNumbers =
        input->dtype == plan::DType::i64 || input->dtype == plan::DType::i32;
    if (isNumbers && input->shape.size() == 2)
      lengths.insert(input->shape[1]);
  }
  if (lengths.size() == 1)
    size.tokens = size.samples * *lengths.begin();
  return size;
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
                    static_cast<double>(size.samples) / seconds,
                    std::nullopt,
                    mean * static_cast<double>(steps - made),
                    session.memory()};
  if (size.tokens)
    report.tokensPerSecond = static_cast<double>(*size.tokens) / seconds;
  // All micro-batches of a step have the same shapes.
  auto program = std::ranges::find(session.plan().programs, result.program,
                                   [](const auto &each) { return each->name; });
  if (program != session.plan().programs.end() && (*program)->model_flops > 0) {
    double flops =
        (*program)->model_flops * static_cast<double>(session.batchesPerStep());
    report.flopsPerSecond =
        flops / static_cast<double>(session.worldSize()) / seconds;
    if (peakFlops > 0)
      report.utilization = *report.flopsPerSecond / peakFlops;
  }
  return report;
}
