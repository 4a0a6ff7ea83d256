//===- KernelRank.h - A step that is kernels of our own ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TEST_UNIT_RUNTIME_CUDA_KERNELRANK_H
#define FSDP_TEST_UNIT_RUNTIME_CUDA_KERNELRANK_H

#include "runtime/device/Arena.h"
#include "runtime/exec/Executor.h"
#include "test/unit/kernels/Programs.h"
#include "test/unit/runtime/SmallPlan.h"

#include <bit>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace fsdp::test {

/// Of x: f32[4, 16] the sum of its rows in bf16, and twice x.
inline plan::KernelProgramT makeTwiceAndSum(const std::string &name) {
  ProgramBuilder builder({4});
  uint32_t x = builder.load(plan::DType::f32, 16);
  builder.storeSum(x, plan::DType::bf16);
  builder.store(plan::DType::f32, builder.op(KernelOpKind::add, {x, x}));
  builder.program.name = name;
  return std::move(builder.program);
}

/// That program as a step of one rank on `device`, in a session's way.
class KernelRank {
public:
  KernelRank(Device &device, Fabric &fabric, plan::KernelProgramT program,
             int kernels = 1, RankMemory::Kind kind = RankMemory::Kind::host)
      : device(device), memory(kind) {
    small.beginProgram("train/step");
    x = small.add(plan::DType::f32, {4, 16});
    plan.kernels.push_back(std::make_unique<plan::KernelProgramT>(program));
    for (int i = 0; i < kernels; ++i) {
      sum = small.add(plan::DType::bf16, {16});
      twice = small.add(plan::DType::f32, {4, 16});
      small.give(sum);
      small.give(twice);
      plan::KernelT kernel;
      kernel.inputs = {uint32_t(x)};
      kernel.outputs = {uint32_t(sum), uint32_t(twice)};
      small.instruction(std::move(kernel));
    }
    plan.training = std::make_unique<plan::TrainingT>();
    plan.training->device = "cuda:sm_90";
    arena = std::make_unique<Arena>(small.bytes(), device.memory());
    transfers = std::make_unique<Transfers>(plan, device.fabric());
    executor = std::make_unique<Executor>(RankContext{.plan = plan,
                                                      .arenas = *arena,
                                                      .memory = memory,
                                                      .transfers = *transfers,
                                                      .shared = nullptr,
                                                      .rank = 0,
                                                      .device = device},
                                          *plan.programs[0]);
    device.rehearse(*executor);
    scratch = std::make_unique<Arena>(memory.scratchNeeded(), device.memory());
    memory.setScratch(scratch->at(0), memory.scratchNeeded());
  }
  ~KernelRank() { device.finish(); }

  void run() { device.run(*executor, step++); }
  void setX(float value) {
    std::vector<float> all(64, value);
    arena->write(small.offsetOf(x), all.data(), 4 * all.size());
  }
  float readTwice() {
    float found = 0;
    arena->read(small.offsetOf(twice), &found, 4);
    return found;
  }
  float readSum() {
    uint16_t found = 0;
    arena->read(small.offsetOf(sum), &found, 2);
    return std::bit_cast<float>(uint32_t(found) << 16);
  }

  Device &device;
  SmallPlan small;
  plan::PlanT &plan = small.plan;
  int32_t x = 0, sum = 0, twice = 0;
  RankMemory memory;
  std::unique_ptr<Arena> arena, scratch;
  std::unique_ptr<Transfers> transfers;
  std::unique_ptr<Executor> executor;
  uint64_t step = 0;
};

} // namespace fsdp::test

#endif // FSDP_TEST_UNIT_RUNTIME_CUDA_KERNELRANK_H
