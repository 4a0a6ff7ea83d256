//===- GpuKernelsTest.cpp - Kernels of our own on a GPU -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What KernelLaunchTest.cpp asks of a machine that runs their text.
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/local/Local.h"
#include "runtime/cuda/Device.h"
#include "runtime/cuda/DeviceAllocator.h"
#include "test/unit/runtime/cuda/ArenaKernels.h"
#include "test/unit/runtime/cuda/KernelRank.h"
#include "test/unit/runtime/cuda/NeedsGpu.h"
#include "test/unit/runtime/cuda/ProgramNumbers.h"

#include <gtest/gtest.h>

#include <chrono>

using namespace fsdp;
using namespace fsdp::test;

namespace {

class GpuPrograms : public testing::Test {
protected:
  void SetUp() override {
    FSDP_NEEDS_GPU();
    plan.training = std::make_unique<plan::TrainingT>();
    plan.training->device = "cuda:sm_80";
    device = makeCudaDevice(plan, *fabrics[0], DeviceOptions());
  }

  plan::PlanT plan;
  std::vector<std::unique_ptr<Fabric>> fabrics =
      makeLocalFabrics(1, std::chrono::seconds(60));
  std::unique_ptr<Device> device;
};

TEST_F(GpuPrograms, GiveTheInterpretersNumbers) {
  ArenaKernels memory(device->memory(), device->computeStream(),
                      uint64_t(64) << 20);
  for (auto [rows, columns] : {std::pair(3, 72), {3, 640}, {64, 4096}})
    for (const plan::KernelProgramT &program :
         makeLaunchedPrograms(rows, uint64_t(columns))) {
      expectTheInterpretersNumbers(memory, *device->kernels(), program);
      if (HasFailure())
        return;
    }
}

TEST_F(GpuPrograms, StepsAreLaunchedAndThenCaptured) {
  KernelRank rank(*device, *fabrics[0], makeTwiceAndSum("twice+sum"),
                  /*kernels=*/2, RankMemory::Kind::device);
  for (int step = 1; step <= 6; ++step) {
    rank.setX(float(step));
    rank.run();
    EXPECT_EQ(rank.readTwice(), 2 * step);
    EXPECT_EQ(rank.readSum(), 4 * step);
    EXPECT_EQ(rank.memory.missedBytes(), 0u);
  }
}

} // namespace
