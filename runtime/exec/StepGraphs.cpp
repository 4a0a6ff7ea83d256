//===- StepGraphs.cpp - One launch per step -------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/exec/StepGraphs.h"

#include "runtime/exec/InTurn.h"
#include "runtime/log/Log.h"
#include "support/Error.h"
#include "support/Format.h"

#include <cstdlib>
#include <string_view>
#include <utility>

using namespace fsdp;

/// Runs before a capture: libraries load their kernels, and calls that ask for
/// other memory than in the rehearsal have been observed again.
static constexpr unsigned kWarmUps = 3;

void StepGraphs::put(std::span<DeviceTask *const> tasks) const {
  /// However it ends, the thread is on the first rank's stream as before.
  struct Back {
    ~Back() { recorder.enter(stream); }
    GraphRecorder &recorder;
    StreamHandle stream;
  } back{*recorder, tasks[0]->streams->compute()};
  std::vector<Turn> turns;
  for (DeviceTask *task : tasks)
    turns.push_back({task->executor, task->step, task->recorder});
  issueInTurn(turns,
              [&](size_t i) { recorder->enter(tasks[i]->streams->compute()); });
}

void StepGraphs::separate(bool isGraph) {
  if (isSeparate && wasGraph && *wasGraph != isGraph)
    ways.drain();
  wasGraph = isGraph;
}

void StepGraphs::issue(std::span<DeviceTask *const> tasks) {
  separate(/*isGraph=*/false);
  put(tasks);
}

static bool isZero(const char *variable) {
  const char *value = std::getenv(variable);
  return value && std::string_view(value) == "0";
}

StepGraphs::StepGraphs(CudaGraph mode, std::unique_ptr<GraphRecorder> recorder,
                       Ways ways)
    : mode(mode), recorder(std::move(recorder)), ways(std::move(ways)),
      isSeparate(isZero("NCCL_GRAPH_MIXING_SUPPORT")) {}

void StepGraphs::clear() noexcept { entries.clear(); }

StepGraphs::~StepGraphs() {
  for (EventHandle event : events)
    owner->destroyEvent(event);
}

void StepGraphs::fork(std::span<DeviceTask *const> tasks) {
  while (events.size() < tasks.size()) {
    owner = tasks[0]->streams;
    events.push_back(owner->createEvent());
  }
  StreamHandle first = tasks[0]->streams->compute();
  owner->record(events[0], first);
  for (DeviceTask *task : tasks.subspan(1))
    owner->wait(task->streams->compute(), events[0]);
}

void StepGraphs::join(std::span<DeviceTask *const> tasks) {
  while (events.size() < tasks.size()) {
    owner = tasks[0]->streams;
    events.push_back(owner->createEvent());
  }
  StreamHandle first = tasks[0]->streams->compute();
  for (size_t i = 1; i < tasks.size(); ++i) {
    owner->record(events[i], tasks[i]->streams->compute());
    owner->wait(first, events[i]);
  }
}

void StepGraphs::expect(std::span<DeviceTask *const> tasks) {
  Entry &entry = entries[tasks[0]->executor];
  if (mode == CudaGraph::off)
    entry.reason = "--cuda-graph=off";
  // The plan says so, to all ranks alike: there is nothing to agree on.
  if (std::string why = tasks[0]->executor->needsHost(); !why.empty())
    refuse(entry, tasks, why);
}

void StepGraphs::run(std::span<DeviceTask *const> tasks) {
  if (successors.empty())
    return issueRun(tasks);
  successors.back()->call([&] { issueRun(tasks); });
}

void StepGraphs::issueRun(std::span<DeviceTask *const> tasks) {
  // Of a graph's kernels nobody knows whose they are. All ranks profile alike.
  if (tasks[0]->recorder)
    return issue(tasks);
  Entry &entry = entries[tasks[0]->executor];
  if (entry.graph)
    return replay(entry, tasks);
  if (entry.isRefused || entry.runs++ < kWarmUps)
    return issue(tasks);
  // All ranks are here in the same run, whatever they were told to do.
  const std::string &program = tasks[0]->executor->source().name;
  std::string reason = entry.reason;
  std::unique_ptr<WorkGraph> graph;
  const size_t freeBefore = tasks[0]->streams->freeMemory();
  const size_t threads = successors.size();
  if (reason.empty()) {
    try {
      graph = capture(entry, tasks);
    } catch (const std::exception &error) {
      reason = error.what();
      recover(tasks, reason);
    }
  }
  if (ways.agree)
    reason = ways.agree(program, reason);
  if (!reason.empty()) {
    graph.reset();
    for (DeviceTask *task : tasks)
      task->executor->abandon();
    refuse(entry, tasks, reason);
    if (successors.size() == threads)
      return issue(tasks);
    return successors.back()->call([&] { issue(tasks); });
  }
  entry.captured.clear();
  for (DeviceTask *task : tasks)
    entry.captured.push_back(task->executor->transfers().keepCaptured());
  entry.graph = std::move(graph);
  begin(entry, tasks, freeBefore);
}

void StepGraphs::begin(Entry &entry, std::span<DeviceTask *const> tasks,
                       size_t freeBefore) {
  replay(entry, tasks);
  const size_t freeNow = tasks[0]->streams->freeMemory();
  const size_t bytes = freeBefore > freeNow ? freeBefore - freeNow : 0;
  taken += bytes;
  log(LogLevel::info,
      "the program " + tasks[0]->executor->source().name +
          " runs as a CUDA graph from step " + std::to_string(tasks[0]->step) +
          " on: " + std::to_string(entry.graph->size()) + " nodes, " +
          formatBytes(bytes) + " of the device's memory");
}

void StepGraphs::recover(std::span<DeviceTask *const> tasks,
                         const std::string &reason) {
  StreamHandle stream = tasks[0]->streams->compute();
  if (recorder->recovers(reason, stream))
    return;
  // Handles and errors are each thread's own.
  auto fresh = std::make_unique<IssuingThread>();
  bool works = false;
  fresh->call([&] {
    tasks[0]->streams->use();
    recorder->enter(stream);
    works = recorder->recovers(reason, stream);
  });
  if (!works)
    throw Error(ErrorId::DeviceFailed,
                "a capture as a CUDA graph failed (" + reason +
                    ") and left behind a library that fails since; run with "
                    "--cuda-graph=off");
  successors.push_back(std::move(fresh));
}

void StepGraphs::refuse(Entry &entry, std::span<DeviceTask *const> tasks,
                        const std::string &reason) {
  std::string message = "the program " + tasks[0]->executor->source().name +
                        " cannot be captured as a CUDA graph: " + reason;
  if (mode == CudaGraph::on)
    throw Error(ErrorId::RuntimeUnsupported,
                message + "; run it with --cuda-graph=auto or off");
  if (mode == CudaGraph::automatic)
    log(LogLevel::warning, message + "; its kernels are launched one by one");
  entry.isRefused = true;
}

std::unique_ptr<WorkGraph>
StepGraphs::capture(Entry &entry, std::span<DeviceTask *const> tasks) {
  std::vector<Transfers::Counts> before;
  for (DeviceTask *task : tasks)
    before.push_back(task->executor->transfers().counts());
  std::unique_ptr<WorkGraph> graph;
  try {
    graph = recorder->record(tasks[0]->streams->compute(), [&] {
      fork(tasks);
      put(tasks);
      join(tasks);
    });
  } catch (...) {
    for (size_t i = 0; i < tasks.size(); ++i)
      tasks[i]->executor->transfers().setCounts(before[i]);
    throw;
  }
  // A replay counts them.
  entry.transfers.clear();
  for (size_t i = 0; i < tasks.size(); ++i) {
    const Transfers &transfers = tasks[i]->executor->transfers();
    entry.transfers.push_back(
        Transfers::difference(transfers.counts(), before[i]));
    transfers.setCounts(before[i]);
  }
  return graph;
}

void StepGraphs::replay(Entry &entry, std::span<DeviceTask *const> tasks) {
  separate(/*isGraph=*/true);
  // Each rank's inputs and rates were put on its own stream.
  join(tasks);
  for (size_t i = 0; i < tasks.size(); ++i)
    tasks[i]->executor->transfers().launchCaptured(entry.captured[i],
                                                   tasks[i]->step);
  entry.graph->launch();
  fork(tasks);
  for (size_t i = 0; i < tasks.size(); ++i) {
    tasks[i]->executor->noteLaunch();
    tasks[i]->executor->transfers().addCounts(entry.transfers[i]);
  }
}
