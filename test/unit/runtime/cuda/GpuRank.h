//===- GpuRank.h - Small programs on a GPU ----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TEST_UNIT_RUNTIME_CUDA_GPURANK_H
#define FSDP_TEST_UNIT_RUNTIME_CUDA_GPURANK_H

#include "runtime/comm/local/Local.h"
#include "runtime/cuda/Device.h"
#include "runtime/device/Arena.h"
#include "runtime/exec/Executor.h"
#include "test/unit/runtime/SmallPlan.h"

#include <chrono>
#include <memory>
#include <vector>

namespace fsdp::test {

/// One rank that runs the programs of a plan as a session does: rehearsed,
/// then as single launches, then as graphs.
class GpuRank {
public:
  explicit GpuRank(SmallPlan &small, CudaGraph mode = CudaGraph::automatic)
      : plan(small.plan) {
    plan.training = std::make_unique<plan::TrainingT>();
    plan.training->device = "cuda:sm_75";
    DeviceOptions options;
    options.cudaGraph = mode;
    device = makeCudaDevice(plan, *fabrics[0], options);
    arena = std::make_unique<Arena>(small.bytes(), device->memory());
    transfers = std::make_unique<Transfers>(plan, device->fabric());
    for (const auto &program : plan.programs)
      executors.push_back(
          std::make_unique<Executor>(RankContext{.plan = plan,
                                                 .arenas = *arena,
                                                 .memory = memory,
                                                 .transfers = *transfers,
                                                 .shared = nullptr,
                                                 .rank = 0,
                                                 .device = *device},
                                     *program));
    for (const auto &executor : executors)
      device->rehearse(*executor);
    device->settle();
    scratch = std::make_unique<Arena>(memory.scratchNeeded(), device->memory());
    memory.setScratch(scratch->at(0), memory.scratchNeeded());
    arena->clear();
  }
  ~GpuRank() { device->finish(); }

  void run(size_t program) { device->run(*executors[program], step++); }

  plan::PlanT &plan;
  std::vector<std::unique_ptr<Fabric>> fabrics =
      makeLocalFabrics(1, std::chrono::seconds(60));
  std::unique_ptr<Device> device;
  RankMemory memory{RankMemory::Kind::device};
  std::unique_ptr<Arena> arena, scratch;
  std::unique_ptr<Transfers> transfers;
  std::vector<std::unique_ptr<Executor>> executors;
  uint64_t step = 0;
};

} // namespace fsdp::test

#endif // FSDP_TEST_UNIT_RUNTIME_CUDA_GPURANK_H
