//===- FarGraphs.cpp - One launch per step, on a simulated device ---------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "FarGraphs.h"

#include "runtime/exec/InTurn.h"
#include "support/Error.h"

using namespace fsdp;
using namespace fsdp::test;

void FarGraphs::put(std::span<FarTask *const> tasks) const {
  std::vector<Turn> turns;
  for (FarTask *task : tasks)
    turns.push_back({task->executor, task->step, task->recorder});
  issueInTurn(turns, [](size_t) {});
}

void FarGraphs::fork(std::span<FarTask *const> tasks) {
  while (events.size() < tasks.size())
    events.push_back(device->createEvent());
  device->record(events[0], tasks[0]->streams->compute());
  for (FarTask *task : tasks.subspan(1))
    device->wait(task->streams->compute(), events[0]);
}

void FarGraphs::join(std::span<FarTask *const> tasks) {
  while (events.size() < tasks.size())
    events.push_back(device->createEvent());
  for (size_t i = 1; i < tasks.size(); ++i) {
    device->record(events[i], tasks[i]->streams->compute());
    device->wait(tasks[0]->streams->compute(), events[i]);
  }
}

bool FarGraphs::capture(Entry &entry, std::span<FarTask *const> tasks) {
  std::vector<Transfers::Counts> before;
  for (FarTask *task : tasks)
    before.push_back(task->executor->transfers().counts());
  device->beginCapture(tasks[0]->streams->compute());
  try {
    fork(tasks);
    put(tasks);
    join(tasks);
    entry.graph = device->endCapture();
  } catch (const Error &) {
    try {
      (void)device->endCapture();
    } catch (const std::exception &) {
      // It was over already, or fails for the same reason.
    }
    for (size_t i = 0; i < tasks.size(); ++i) {
      tasks[i]->executor->transfers().setCounts(before[i]);
      tasks[i]->executor->abandon();
    }
    return false;
  }
  for (size_t i = 0; i < tasks.size(); ++i) {
    const Transfers &transfers = tasks[i]->executor->transfers();
    entry.transfers.push_back(
        Transfers::difference(transfers.counts(), before[i]));
    transfers.setCounts(before[i]);
    entry.captured.push_back(transfers.keepCaptured());
  }
  return true;
}

void FarGraphs::run(std::span<FarTask *const> tasks) {
  // As StepGraphs: nobody knows whose a graph's kernels are.
  if (tasks[0]->recorder)
    return put(tasks);
  Entry &entry = entries[tasks[0]->executor];
  if (entry.graph)
    return replay(entry, tasks);
  if (entry.runs++ == 0)
    entry.isRefused = !isOn || !tasks[0]->executor->needsHost().empty();
  else if (!entry.isRefused && capture(entry, tasks))
    return replay(entry, tasks);
  else
    entry.isRefused = true;
  put(tasks);
}

void FarGraphs::replay(Entry &entry, std::span<FarTask *const> tasks) {
  join(tasks);
  for (size_t i = 0; i < tasks.size(); ++i)
    tasks[i]->executor->transfers().launchCaptured(entry.captured[i],
                                                   tasks[i]->step);
  device->launch(*entry.graph);
  ++launched;
  fork(tasks);
  for (size_t i = 0; i < tasks.size(); ++i) {
    tasks[i]->executor->noteLaunch();
    tasks[i]->executor->transfers().addCounts(entry.transfers[i]);
  }
}
