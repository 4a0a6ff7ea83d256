//===- GpuTest.cpp - What needs a GPU -------------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Skipped, with a word, where there is none.
//
//===----------------------------------------------------------------------===//

#include "plan/Reader.h"
#include "plan/Writer.h"
#include "runtime/cuda/DeviceAllocator.h"
#include "runtime/cuda/Memory.h"
#include "runtime/cuda/Streams.h"
#include "runtime/device/Arena.h"
#include "runtime/device/PlannedAllocator.h"
#include "runtime/device/StreamAheadWriter.h"
#include "runtime/launch/Launch.h"
#include "runtime/train/Checkpointer.h"
#include "runtime/weights/Safetensors.h"
#include "support/Error.h"
#include "test/unit/runtime/TemporaryFolder.h"
#include "test/unit/runtime/TinyModel.h"
#include "test/unit/runtime/cuda/ArenaKernels.h"
#include "test/unit/runtime/cuda/NeedsGpu.h"

#include <ATen/ops/empty.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <cuda_runtime_api.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>

using namespace fsdp;
using namespace fsdp::test;

namespace {

//===----------------------------------------------------------------------===//
// The allocator, as far as it needs none
//===----------------------------------------------------------------------===//

TEST(DeviceAllocator, ServesAThreadByItsPlan) {
  installDeviceAllocator();
  namespace caching = c10::cuda::CUDACachingAllocator;
  EXPECT_EQ(c10::GetAllocator(c10::kCUDA), caching::get());
  Arena arena(1 << 16); // any memory that is an arena's
  RankMemory memory(RankMemory::Kind::device);
  RankMemory::Current current(memory);
  std::vector<AllocationSlot> slots{{arena.at(512), 256}, {arena.at(0), 512}};
  RankMemory::Replay replay(memory, slots);
  void *first = caching::raw_alloc(200), *second = caching::raw_alloc(512);
  EXPECT_EQ(first, arena.at(512));
  EXPECT_EQ(second, arena.at(0));
  EXPECT_TRUE(replay.isAsObserved());
  // Nothing is given back: it is the arena's.
  caching::raw_delete(first);
  caching::raw_delete(second);
  EXPECT_EQ(memory.missedBytes(), 0u);
}

TEST(DeviceAllocator, LeavesTheHostsRequestsAlone) {
  installDeviceAllocator();
  Arena arena(1 << 16);
  RankMemory memory(RankMemory::Kind::device);
  RankMemory::Current current(memory);
  std::vector<AllocationSlot> slots{{arena.at(0), 512}};
  RankMemory::Replay replay(memory, slots);
  at::Tensor onHost = at::empty({16}, at::kFloat);
  EXPECT_FALSE(arena.contains(onHost.data_ptr()));
  EXPECT_FALSE(replay.isAsObserved());
  EXPECT_EQ(memory.missedBytes(), 0u);
}

//===----------------------------------------------------------------------===//
// Memory and kernels
//===----------------------------------------------------------------------===//

class Gpu : public testing::Test {
protected:
  void SetUp() override {
    FSDP_NEEDS_GPU();
    streams = makeCudaStreams(0);
    memory = std::make_unique<CudaMemory>(
        streams, StreamMemory::Waiting{[] {}, std::chrono::minutes(1)});
  }

  std::vector<std::byte> read(const Arena &arena, uint64_t bytes) {
    std::vector<std::byte> found(bytes);
    arena.read(0, found.data(), bytes);
    return found;
  }

  std::shared_ptr<Streams> streams;
  std::unique_ptr<CudaMemory> memory;
};

TEST_F(Gpu, MemoryGoesThereAndBack) {
  Arena arena(1 << 20, *memory);
  EXPECT_FALSE(arena.isHost());
  EXPECT_THAT(read(arena, 1000), testing::Each(std::byte(0)));
  std::vector<std::byte> sent(1 << 20);
  for (size_t i = 0; i < sent.size(); ++i)
    sent[i] = static_cast<std::byte>(i * 7 + i / 256);
  arena.write(0, sent.data(), sent.size());
  EXPECT_EQ(read(arena, sent.size()), sent);
  arena.fill(0, 0xff, 1000);
  EXPECT_THAT(read(arena, 1000), testing::Each(std::byte(0xff)));
  arena.clear();
  EXPECT_THAT(read(arena, sent.size()), testing::Each(std::byte(0)));
}

TEST_F(Gpu, WaitingLeavesNoErrorBehind) {
  Arena arena(uint64_t(256) << 20, *memory);
  for (int i = 0; i < 50; ++i)
    arena.fill(0, static_cast<unsigned char>(i), arena.bytes());
  memory->synchronize();
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
}

TEST_F(Gpu, TooMuchMemoryIsRefused) {
  try {
    Arena arena(uint64_t(1) << 50, *memory);
    FAIL() << "was not refused";
  } catch (const Error &error) {
    EXPECT_EQ(error.id(), ErrorId::OutOfMemory) << error.what();
  }
}

TEST_F(Gpu, InputsComeOnTheirOwnStream) {
  Arena arena(1 << 16, *memory);
  PinnedMemory pinned(streams);
  StreamAheadWriter ahead(streams, pinned, *memory);
  for (int round = 0; round < 5; ++round) {
    std::vector<std::byte> a(1000, static_cast<std::byte>(round)),
        b(77, static_cast<std::byte>(100 + round));
    std::vector<std::span<const std::byte>> parts{a, b};
    ahead.begin(parts);
    std::fill(a.begin(), a.end(), std::byte(0xee));
    ahead.put(1, arena.at(1000));
    ahead.put(0, arena.at(0));
    std::vector<std::byte> found = read(arena, 1077);
    EXPECT_EQ(found[0], static_cast<std::byte>(round));
    EXPECT_EQ(found[999], static_cast<std::byte>(round));
    EXPECT_EQ(found[1076], static_cast<std::byte>(100 + round));
  }
}

TEST_F(Gpu, ReductionsHaveTheHostsBits) {
  ArenaKernels kernels(*memory, streams->compute());
  expectTheHostsReductions(kernels);
}

TEST_F(Gpu, SumsOfPartsHaveTheHostsBits) {
  ArenaKernels kernels(*memory, streams->compute());
  expectTheHostsPartSums(kernels);
}

TEST_F(Gpu, DrawsHaveTheHostsNumbers) {
  ArenaKernels kernels(*memory, streams->compute());
  expectTheHostsDraws(kernels);
}

TEST_F(Gpu, UpdatesHaveTheHostsBits) {
  ArenaKernels kernels(*memory, streams->compute());
  expectTheHostsUpdates(kernels);
}

TEST_F(Gpu, CodesStandForTheHostsNumbers) {
  ArenaKernels kernels(*memory, streams->compute());
  expectTheHostsNumbersOfCodes(kernels);
}

TEST_F(Gpu, CountsRiseByOne) {
  ArenaKernels kernels(*memory, streams->compute());
  expectCounts(kernels);
}

//===----------------------------------------------------------------------===//
// Sessions
//===----------------------------------------------------------------------===//

struct Outcome {
  std::vector<StepResult> steps;
  std::map<std::string, std::vector<float>> weights;
};

class GpuSession : public testing::TestWithParam<int> {
protected:
  void SetUp() override { FSDP_NEEDS_GPU(); }

  void write(TinyModel model) {
    model.worldSize = GetParam();
    options = model.writeForThreads(folder.path());
  }
  void moveToGpu() {
    PlanFile file = PlanFile::read(options.artifact);
    plan::PlanT plan = file.plan();
    plan.training->device = "cuda:sm_75";
    writePlan(plan, options.artifact);
  }

  Outcome run(int steps) {
    Outcome outcome;
    std::string path = folder.path() + "/final.safetensors";
    launch(options, [&](Session &session) {
      for (int i = 0; i < steps; ++i) {
        StepResult result = session.step();
        if (session.rank() == 0)
          outcome.steps.push_back(result);
      }
      session.exportWeights(path);
    });
    SafetensorsFile file(path);
    for (const auto &[name, tensor] : file.tensors()) {
      size_t count = 1;
      for (int64_t size : tensor.shape)
        count *= static_cast<size_t>(size);
      std::vector<float> &values = outcome.weights[name];
      values.resize(count);
      std::memcpy(values.data(), tensor.data, count * sizeof(float));
    }
    return outcome;
  }

  TemporaryFolder folder;
  LaunchOptions options;
};

TEST_P(GpuSession, TrainsAsTheHostDoes) {
  for (Optimizer optimizer :
       {Optimizer::adamw, Optimizer::adam, Optimizer::sgd})
    for (double norm : {0.0, 0.01}) {
      TinyModel model;
      model.optimizer = optimizer;
      model.maxGradNorm = norm;
      write(model);
      Outcome expected = run(6);
      moveToGpu();
      Outcome found = run(6);
      for (size_t i = 0; i < 6; ++i) {
        EXPECT_NEAR(*found.steps[i].loss, *expected.steps[i].loss, 1e-4) << i;
        if (i > 0) {
          EXPECT_EQ(found.steps[i].unplannedBytes, 0u) << i;
        }
        ASSERT_EQ(found.steps[i].collectives.size(),
                  expected.steps[i].collectives.size());
        for (size_t j = 0; j < found.steps[i].collectives.size(); ++j)
          EXPECT_EQ(found.steps[i].collectives[j].bytes,
                    expected.steps[i].collectives[j].bytes);
      }
      for (const auto &[name, values] : expected.weights)
        for (size_t i = 0; i < values.size(); ++i)
          EXPECT_NEAR(found.weights[name][i], values[i], 1e-4) << name;
    }
}

TEST_P(GpuSession, AGraphGivesTheBitsOfSingleLaunches) {
  TinyModel model;
  model.maxGradNorm = 0.01;
  write(model);
  moveToGpu();
  options.session.lrSchedule = "linear:warmup=3,total=10";
  options.session.steps = 10;
  options.session.device.cudaGraph = CudaGraph::off;
  Outcome expected = run(10);
  options.session.device.cudaGraph = CudaGraph::on;
  Outcome found = run(10);
  for (size_t i = 0; i < 10; ++i) {
    EXPECT_EQ(found.steps[i].loss, expected.steps[i].loss) << i;
    EXPECT_EQ(found.steps[i].gradNorm, expected.steps[i].gradNorm) << i;
    EXPECT_EQ(found.steps[i].lr, expected.steps[i].lr) << i;
    for (size_t j = 0; j < found.steps[i].collectives.size(); ++j)
      EXPECT_EQ(found.steps[i].collectives[j].count,
                expected.steps[i].collectives[j].count);
  }
  EXPECT_EQ(found.weights, expected.weights);
}

TEST_P(GpuSession, WhatThePlanSaysSyncsIsNotCaptured) {
  write({});
  moveToGpu();
  plan::PlanT plan = PlanFile::read(options.artifact).plan();
  for (auto &instruction : plan.programs[0]->instructions)
    if (plan::CallT *call = instruction->body.AsCall())
      call->syncs = true;
  writePlan(plan, options.artifact);
  options.session.device.cudaGraph = CudaGraph::automatic;
  EXPECT_EQ(run(6).steps.size(), 6u);
  options.session.device.cudaGraph = CudaGraph::on;
  try {
    launch(options, [](Session &) { FAIL() << "the session was made"; });
    FAIL() << "was not refused";
  } catch (const Error &error) {
    EXPECT_EQ(error.id(), ErrorId::RuntimeUnsupported);
    EXPECT_THAT(error.what(),
                testing::HasSubstr("the host takes part in aten::"));
  }
}

TEST_P(GpuSession, ReadsNothingThatNobodyWrote) {
  write({});
  moveToGpu();
  Outcome expected = run(6);
  options.session.poison = true;
  EXPECT_EQ(run(6).weights, expected.weights);
}

TEST_P(GpuSession, CheckpointsGoOn) {
  write({});
  moveToGpu();
  Outcome whole = run(5);
  std::string saved = folder.path() + "/saved";
  launch(options, [&](Session &session) {
    Checkpointer checkpointer(session, {.folder = saved, .every = 2});
    for (int i = 0; i < 3; ++i) {
      session.step();
      checkpointer.afterStep();
    }
    checkpointer.finish();
  });
  options.session.checkpointPath = saved;
  EXPECT_EQ(run(2).weights, whole.weights);
}

INSTANTIATE_TEST_SUITE_P(, GpuSession, testing::Values(1, 2, 4),
                         [](const auto &info) {
                           return "ranks" + std::to_string(info.param);
                         });

} // namespace
