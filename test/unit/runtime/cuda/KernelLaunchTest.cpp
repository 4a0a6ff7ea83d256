//===- KernelLaunchTest.cpp - Kernels of our own, loaded and launched -----===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Without a GPU: FakeDriver.h stands for the driver, and runs the very text
// that it was given in a machine of ours.
//
//===----------------------------------------------------------------------===//

#include "FakeDriver.h"
#include "FarDevice.h"
#include "runtime/comm/local/Local.h"
#include "support/Error.h"
#include "test/unit/kernels/Programs.h"
#include "test/unit/kernels/PtxMachine.h"
#include "test/unit/runtime/cuda/ArenaKernels.h"
#include "test/unit/runtime/cuda/KernelRank.h"
#include "test/unit/runtime/cuda/ProgramNumbers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

using namespace fsdp;
using namespace fsdp::test;
using plan::DType;
using testing::HasSubstr;

namespace {

/// Runs the text. What it may touch, the driver has looked at.
void computeByPtx(const FakeLaunch &launched) {
  PtxProgram code(launched.ptx, launched.launch.entry);
  PtxMachine machine(code);
  const plan::KernelProgramT &program = launched.program;
  auto allowPartial = [&](size_t operand, void *at) {
    machine.allow(at, readLaunches(launched.ptx)->front().partialRows *
                          program.operands[operand]->columns * sizeof(float));
  };
  auto allow = [&](size_t operand, void *at) {
    machine.allow(at, extentOf(program, operand) *
                          dtypeBytes(program.operands[operand]->dtype));
  };
  if (launched.launch.entry.starts_with("sum_")) {
    size_t operand = std::stoul(launched.launch.entry.substr(4));
    allowPartial(operand, launched.arguments[0]);
    allow(operand, launched.arguments[1]);
  } else {
    for (size_t i = 0; i < launched.arguments.size(); ++i)
      takesRowSum(program, i) ? allowPartial(i, launched.arguments[i])
                              : allow(i, launched.arguments[i]);
  }
  machine.launch(launched.launch.blocks, launched.launch.threads,
                 launched.arguments);
}

/// One rank on a device that the host plays.
class KernelLaunch : public testing::Test {
protected:
  KernelLaunch() {
    FarOptions options;
    options.graphs = true;
    options.lateness = {Lateness::Kind::most};
    installPlannedAllocator();
    device = makeFarDevice(*fabrics[0], simulated, options);
    FakeDriver::computeBy([this](const FakeLaunch &launched) {
      entries.push_back(launched.launch.entry);
      computeByPtx(launched);
    });
  }
  ~KernelLaunch() override {
    FakeDriver::computeBy(nullptr);
    SimulatedDevice::used() = nullptr;
  }

  std::vector<std::unique_ptr<Fabric>> fabrics =
      makeLocalFabrics(1, std::chrono::seconds(60));
  std::shared_ptr<SimulatedDevice> simulated =
      std::make_shared<SimulatedDevice>(Lateness{Lateness::Kind::most});
  std::unique_ptr<Device> device;
  std::vector<std::string> entries; ///< in the order in which they ran
};

TEST_F(KernelLaunch, TextGivesTheInterpretersNumbers) {
  ArenaKernels memory(device->memory(), device->computeStream());
  for (uint64_t columns : {72, 640})
    for (const plan::KernelProgramT &program :
         makeLaunchedPrograms(/*rows=*/3, columns)) {
      FakeDriver::teach(program, kFarCapability);
      expectTheInterpretersNumbers(memory, *device->kernels(), program);
      if (HasFailure())
        return;
    }
}

TEST_F(KernelLaunch, StepsAreLaunchedAndThenCaptured) {
  plan::KernelProgramT program = makeTwiceAndSum("twice+sum");
  FakeDriver::teach(program, kFarCapability);
  KernelRank rank(*device, *fabrics[0], program);
  entries.clear();
  for (int step = 1; step <= 6; ++step) {
    rank.setX(float(step));
    rank.run();
    EXPECT_EQ(rank.readTwice(), 2 * step);
    EXPECT_EQ(rank.readSum(), 4 * step);
    // Rows of partial sums are the plan's.
    EXPECT_EQ(rank.memory.missedBytes(), 0u);
  }
  EXPECT_GT(simulated->launchCount(), 0u);
  EXPECT_THAT(simulated->races(), testing::IsEmpty());
  ASSERT_EQ(entries.size(), 12u);
  EXPECT_EQ(entries[0], "kernel_aligned");
  EXPECT_EQ(entries[1], "sum_1");
}

TEST_F(KernelLaunch, EqualProgramsShareOneModule) {
  plan::KernelProgramT program = makeTwiceAndSum("shared");
  FakeDriver::teach(program, kFarCapability);
  uint64_t before = FakeDriver::loadCount();
  KernelRank rank(*device, *fabrics[0], program, /*kernels=*/3);
  EXPECT_EQ(FakeDriver::loadCount(), before + 1);
}

TEST_F(KernelLaunch, WhatDoesNotLieAtMultiplesOf16HasAnEntryOfItsOwn) {
  plan::KernelProgramT program = makeTwiceAndSum("askew");
  FakeDriver::teach(program, kFarCapability);
  ArenaKernels memory(device->memory(), device->computeStream());
  expectTheInterpretersNumbers(memory, *device->kernels(), program);
  EXPECT_EQ(entries, (std::vector<std::string>{"kernel_aligned", "sum_1",
                                               "kernel", "sum_1"}));
}

TEST_F(KernelLaunch, ALaunchThatFailsNamesTheKernel) {
  plan::KernelProgramT program = makeTwiceAndSum("failing");
  FakeDriver::teach(program, kFarCapability);
  KernelRank rank(*device, *fabrics[0], program);
  FakeDriver::failNextLaunch(driver::Result::illegalAddress);
  try {
    rank.run();
    FAIL() << "was not refused";
  } catch (const Error &error) {
    EXPECT_EQ(error.id(), ErrorId::DeviceFailed);
    EXPECT_THAT(error.what(), HasSubstr("kernel 'failing' cannot be started as "
                                        "'kernel_aligned', 4 blocks of"));
    EXPECT_THAT(error.what(), HasSubstr("CUDA_ERROR_ILLEGAL_ADDRESS"));
  }
}

TEST_F(KernelLaunch, WhatTheDriverDoesNotTakeIsRefusedWithItsWords) {
  ProgramBuilder builder({4});
  builder.store(DType::f32, builder.load(DType::f32, 24));
  builder.program.name = "untaught";
  try {
    device->kernels()->load(builder.program);
    FAIL() << "was not refused";
  } catch (const Error &error) {
    EXPECT_EQ(error.id(), ErrorId::KernelsUnusable);
    EXPECT_THAT(error.what(), HasSubstr("kernel 'untaught'"));
    EXPECT_THAT(error.what(), HasSubstr("nobody taught this text"));
  }
}

TEST_F(KernelLaunch, NothingIsLoadedInACapture) {
  plan::KernelProgramT program = makeTwiceAndSum("captured");
  FakeDriver::teach(program, kFarCapability);
  simulated->beginCapture(device->computeStream());
  EXPECT_THROW(device->kernels()->load(program), Error);
  (void)simulated->endCapture();
  EXPECT_NO_THROW(device->kernels()->load(program));
}

TEST_F(KernelLaunch, AThreadWithoutADeviceIsRefused) {
  plan::KernelProgramT program = makeTwiceAndSum("homeless");
  FakeDriver::teach(program, kFarCapability);
  std::thread([&] {
    EXPECT_THROW(device->kernels()->load(program), Error);
  }).join();
}

TEST_F(KernelLaunch, WithoutElementsNothingIsLaunched) {
  ProgramBuilder builder({0});
  builder.store(DType::f32, builder.load(DType::f32, 16));
  FakeDriver::teach(builder.program, kFarCapability);
  GpuKernelCall call(device->kernels()->load(builder.program), builder.program,
                     {nullptr, nullptr});
  EXPECT_TRUE(call.isEmpty());
  EXPECT_NO_THROW(call.run(nullptr, device->computeStream()));
  EXPECT_THAT(entries, testing::IsEmpty());
}

TEST(GpuCode, IsThatOfTheGpusGeneration) {
  for (auto [capability, target] : {std::pair(80, "sm_80"),
                                    {89, "sm_80"},
                                    {90, "sm_90"},
                                    {100, "sm_100"},
                                    {120, "sm_100"}})
    EXPECT_EQ(targetOfGpu(capability), target) << capability;
  try {
    targetOfGpu(75);
    FAIL() << "was not refused";
  } catch (const Error &error) {
    EXPECT_EQ(error.id(), ErrorId::KernelsUnusable);
    EXPECT_THAT(error.what(), HasSubstr("this one is an sm_75: compile the "
                                        "model with kernels: off"));
  }
}

} // namespace
