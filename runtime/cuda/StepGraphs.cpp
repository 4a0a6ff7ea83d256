//===- StepGraphs.cpp - One launch per step -------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/cuda/StepGraphs.h"

#include "runtime/exec/InTurn.h"
#include "runtime/log/Log.h"
#include "support/Error.h"

#include <ATen/core/CachingHostAllocator.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_runtime_api.h>

#include <cstdlib>
#include <string_view>

using namespace fsdp;

/// Runs before a capture: libraries load their kernels, and calls that ask for
/// other memory than in the rehearsal have been observed again.
static constexpr unsigned kWarmUps = 3;

void StepGraphs::put(std::span<DeviceTask *const> tasks) const {
  std::vector<Turn> turns;
  for (DeviceTask *task : tasks)
    turns.push_back({task->executor, task->step, task->recorder});
  c10::cuda::CUDAStreamGuard guard(tasks[0]->stream);
  issueInTurn(turns, [&](size_t i) {
    c10::cuda::setCurrentCUDAStream(tasks[i]->stream);
  });
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

StepGraphs::StepGraphs(CudaGraph mode, Ways ways)
    : mode(mode), ways(std::move(ways)),
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
  std::unique_ptr<at::cuda::CUDAGraph> graph;
  if (reason.empty()) {
    try {
      graph = capture(entry, tasks);
    } catch (const std::exception &error) {
      reason = error.what();
    }
  }
  if (ways.agree)
    reason = ways.agree(program, reason);
  if (!reason.empty()) {
    graph.reset();
    for (DeviceTask *task : tasks)
      task->executor->abandon();
    refuse(entry, tasks, reason);
    return issue(tasks);
  }
  entry.captured.clear();
  for (DeviceTask *task : tasks)
    entry.captured.push_back(task->executor->transfers().keepCaptured());
  entry.graph = std::move(graph);
  log(LogLevel::info, "the program " + program +
                          " runs as a CUDA graph from step " +
                          std::to_string(tasks[0]->step) + " on");
  replay(entry, tasks);
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

std::unique_ptr<at::cuda::CUDAGraph>
StepGraphs::capture(Entry &entry, std::span<DeviceTask *const> tasks) {
  std::vector<Transfers::Counts> before;
  for (DeviceTask *task : tasks)
    before.push_back(task->executor->transfers().counts());
  auto graph = std::make_unique<at::cuda::CUDAGraph>();
  c10::cuda::CUDAStreamGuard guard(tasks[0]->stream);
  // Other threads may use the device meanwhile.
  const c10::MempoolId_t pool = at::cuda::graph_pool_handle();
  graph->capture_begin(pool, cudaStreamCaptureModeThreadLocal);
  try {
    fork(tasks);
    put(tasks);
    join(tasks);
    graph->capture_end();
  } catch (...) {
    // What was captured is thrown away. LibTorch's allocators need to know that
    // it is over, which `capture_end` does not say to it if it fails; nor does
    // the graph know its pool then.
    try {
      graph->capture_end();
    } catch (const std::exception &) {
      try {
        namespace caching = c10::cuda::CUDACachingAllocator;
        caching::endAllocateToPool(tasks[0]->stream.device_index(), pool);
        caching::releasePool(tasks[0]->stream.device_index(), pool);
        at::getHostAllocator(at::kCUDA)->end_allocate_to_pool(pool);
        at::getHostAllocator(at::kCUDA)->release_pool(pool);
      } catch (const std::exception &) {
        // It was over already.
      }
    }
    (void)cudaGetLastError();
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
  {
    c10::cuda::CUDAStreamGuard guard(tasks[0]->stream);
    entry.graph->replay();
  }
  fork(tasks);
  for (size_t i = 0; i < tasks.size(); ++i) {
    tasks[i]->executor->noteLaunch();
    tasks[i]->executor->transfers().addCounts(entry.transfers[i]);
  }
}
