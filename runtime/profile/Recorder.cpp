//===- Recorder.cpp - When each instruction ran ---------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/profile/Recorder.h"

using namespace fsdp;

ProfileRecorder::ProfileRecorder(const plan::PlanT &plan, size_t records,
                                 size_t runs, size_t steps)
    : plan(plan), all(records) {
  allRuns.reserve(runs);
  allSteps.reserve(steps);
}

void ProfileRecorder::beginRun(uint64_t step, uint64_t microBatch,
                               const plan::ProgramT &program) {
  isOpen = allRuns.size() < allRuns.capacity();
  if (!isOpen)
    return;
  uint32_t index = 0;
  while (plan.programs[index].get() != &program)
    ++index;
  run = static_cast<uint32_t>(allRuns.size());
  int64_t begin = now();
  allRuns.push_back(
      {step, static_cast<uint32_t>(microBatch), index, begin, begin, begin});
}

void ProfileRecorder::endLoading() {
  if (isOpen)
    allRuns.back().loaded = now();
}

void ProfileRecorder::endRun() {
  if (isOpen)
    allRuns.back().end = now();
  isOpen = false;
}

void ProfileRecorder::addStep(uint64_t step, int64_t begin, int64_t end) {
  if (allSteps.size() < allSteps.capacity())
    allSteps.push_back({step, begin, end});
}
