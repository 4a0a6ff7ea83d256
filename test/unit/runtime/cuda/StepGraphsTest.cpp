//===- StepGraphsTest.cpp - Steps as graphs, without a device -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "SimulatedStreams.h"

#include "runtime/comm/backends/Backends.h"
#include "runtime/device/Arena.h"
#include "runtime/exec/HostDevice.h"
#include "runtime/exec/StepGraphs.h"
#include "support/Error.h"
#include "test/unit/runtime/SmallPlan.h"

#include <ATen/core/Tensor.h>
#include <torch/library.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <vector>

using namespace fsdp;
using namespace fsdp::test;
using testing::HasSubstr;

namespace {

/// What the operators below see of the recorder, and it of them.
struct {
  bool isRecording = false;
  std::set<std::thread::id> issuers; ///< of what was done, not recorded
} seen;

at::Tensor countUp(const at::Tensor &x) {
  if (!seen.isRecording)
    seen.issuers.insert(std::this_thread::get_id());
  return x.add(1);
}

/// As one whose number the host needs.
at::Tensor countUpOnHost(const at::Tensor &x) {
  TORCH_CHECK(!seen.isRecording,
              "cusolver error: not permitted when stream is capturing");
  return countUp(x);
}

TORCH_LIBRARY_FRAGMENT(fsdp_graphs_test, m) {
  m.def("count_up(Tensor x) -> Tensor");
  m.impl("count_up", c10::DispatchKey::CPU, countUp);
  m.def("count_up_on_host(Tensor x) -> Tensor");
  m.impl("count_up_on_host", c10::DispatchKey::CPU, countUpOnHost);
}

/// Records over the host's memory: what was done meanwhile is taken back.
class FakeRecorder final : public GraphRecorder {
public:
  struct Notes {
    const Arena *arena = nullptr;
    /// What the graph that is recorded next does.
    std::function<void()> launches;
    /// By call of `recovers`; none left: yes.
    std::vector<bool> recoveries;
    std::vector<std::string> reasons;
    std::vector<std::thread::id> recoveredBy;
    size_t recorded = 0, launched = 0, entered = 0;
  };

  explicit FakeRecorder(Notes &notes) : notes(notes) {}

  void enter(StreamHandle) override { ++notes.entered; }
  std::unique_ptr<WorkGraph> record(StreamHandle,
                                    const std::function<void()> &put) override {
    struct Recording {
      explicit Recording(const Arena &arena)
          : arena(arena), before(arena.bytes()) {
        arena.read(0, before.data(), before.size());
        seen.isRecording = true;
      }
      ~Recording() {
        seen.isRecording = false;
        arena.write(0, before.data(), before.size());
      }
      const Arena &arena;
      std::vector<char> before;
    } recording(*notes.arena);
    put();
    ++notes.recorded;
    return std::make_unique<Graph>(notes);
  }
  bool recovers(const std::string &reason, StreamHandle) override {
    notes.reasons.push_back(reason);
    notes.recoveredBy.push_back(std::this_thread::get_id());
    size_t call = notes.reasons.size() - 1;
    return call >= notes.recoveries.size() || notes.recoveries[call];
  }

private:
  struct Graph final : WorkGraph {
    explicit Graph(Notes &notes) : notes(notes), does(notes.launches) {}
    void launch() override {
      ++notes.launched;
      does();
    }
    size_t size() const override { return 1; }
    Notes &notes;
    const std::function<void()> does;
  };

  Notes &notes;
};

class StepGraphsTest : public testing::Test {
protected:
  StepGraphsTest() {
    seen = {};
    for (bool isOnHost : {false, true}) {
      small.beginProgram(isOnHost ? "refused" : "captured");
      int32_t count = small.add(plan::DType::f32, {4});
      int32_t next = small.add(plan::DType::f32, {4});
      counts.push_back(small.offsetOf(count));
      small.call(isOnHost ? "fsdp_graphs_test::count_up_on_host"
                          : "fsdp_graphs_test::count_up",
                 "", {next}, SmallPlan::tensor(count));
      small.copy(next, count);
    }
    arena = std::make_unique<Arena>(small.bytes());
    notes.arena = arena.get();
    transfers = std::make_unique<Transfers>(small.plan, *fabrics[0]);
    for (const auto &program : small.plan.programs)
      executors.push_back(
          std::make_unique<Executor>(RankContext{.plan = small.plan,
                                                 .arenas = *arena,
                                                 .memory = memory,
                                                 .transfers = *transfers,
                                                 .shared = nullptr,
                                                 .rank = 0,
                                                 .device = *device},
                                     *program));
  }

  std::unique_ptr<StepGraphs> make(CudaGraph mode) {
    return std::make_unique<StepGraphs>(
        mode, std::make_unique<FakeRecorder>(notes),
        StepGraphs::Ways{[this](const std::string &, const std::string &own) {
                           return own.empty() ? peersReason : own;
                         },
                         [] {}});
  }

  /// One run of a program, of which 0 can be captured and 1 cannot.
  void run(StepGraphs &graphs, size_t program) {
    notes.launches = [&, program] { executors[program]->run(step); };
    DeviceTask task{&streams, executors[program].get(), step++};
    DeviceTask *tasks[] = {&task};
    graphs.run(tasks);
  }
  float countOf(size_t program) const {
    float value = 0;
    arena->read(counts[program], &value, sizeof(value));
    return value;
  }

  SmallPlan small;
  std::vector<uint64_t> counts;
  std::unique_ptr<Arena> arena;
  RankMemory memory;
  std::vector<std::unique_ptr<Fabric>> fabrics =
      findBackend("fake").connect({});
  std::unique_ptr<Transfers> transfers;
  std::unique_ptr<Device> device = makeHostDevice(*fabrics[0]);
  std::vector<std::unique_ptr<Executor>> executors;
  SimulatedStreams streams{std::make_shared<SimulatedDevice>(/*isLate=*/false)};
  FakeRecorder::Notes notes;
  std::string peersReason;
  uint64_t step = 0;
};

TEST_F(StepGraphsTest, WhatCannotBeCapturedGoesOnBesideWhatCan) {
  auto graphs = make(CudaGraph::automatic);
  for (int i = 0; i < 6; ++i)
    for (size_t program : {1, 0})
      run(*graphs, program);
  EXPECT_EQ(countOf(0), 6);
  EXPECT_EQ(countOf(1), 6);
  EXPECT_EQ(notes.recorded, 1u);
  EXPECT_EQ(notes.launched, 3u);
  // Once, for the one that failed, and all that it was told.
  ASSERT_EQ(notes.reasons.size(), 1u);
  EXPECT_THAT(notes.reasons[0], HasSubstr("cusolver"));
  EXPECT_THAT(seen.issuers, testing::ElementsAre(std::this_thread::get_id()));
}

TEST_F(StepGraphsTest, ALibraryThatFailsSinceACaptureStaysWithItsThread) {
  notes.recoveries = {false, true};
  auto graphs = make(CudaGraph::automatic);
  for (int i = 0; i < 3; ++i)
    run(*graphs, 1);
  seen.issuers.clear();
  // The fourth is the one that is to be captured.
  for (int i = 0; i < 5; ++i)
    for (size_t program : {1, 0})
      run(*graphs, program);
  EXPECT_EQ(countOf(1), 8);
  EXPECT_EQ(countOf(0), 5);
  EXPECT_EQ(notes.launched, 2u);
  ASSERT_EQ(notes.recoveredBy.size(), 2u);
  EXPECT_EQ(notes.recoveredBy[0], std::this_thread::get_id());
  EXPECT_THAT(seen.issuers, testing::ElementsAre(notes.recoveredBy[1]));
}

TEST_F(StepGraphsTest, WithoutALibraryThatWorksTheRunEnds) {
  notes.recoveries = {false, false};
  auto graphs = make(CudaGraph::automatic);
  for (int i = 0; i < 3; ++i)
    run(*graphs, 1);
  try {
    run(*graphs, 1);
    FAIL() << "went on";
  } catch (const Error &error) {
    EXPECT_EQ(error.id(), ErrorId::DeviceFailed) << error.what();
    EXPECT_THAT(error.what(), HasSubstr("--cuda-graph=off"));
    EXPECT_THAT(error.what(), HasSubstr("cusolver"));
  }
  EXPECT_EQ(countOf(1), 3);
}

TEST_F(StepGraphsTest, WhatAPeerCannotCaptureIsLaunchedOneByOne) {
  peersReason = "rank 1: has no room";
  auto graphs = make(CudaGraph::automatic);
  for (int i = 0; i < 6; ++i)
    run(*graphs, 0);
  EXPECT_EQ(countOf(0), 6);
  EXPECT_EQ(notes.recorded, 1u);
  EXPECT_EQ(notes.launched, 0u);
  EXPECT_TRUE(notes.reasons.empty()) << "this rank's capture did not fail";
}

TEST_F(StepGraphsTest, WhatHasToBeCapturedAndCannotIsAnError) {
  auto graphs = make(CudaGraph::on);
  for (int i = 0; i < 3; ++i)
    run(*graphs, 1);
  try {
    run(*graphs, 1);
    FAIL() << "went on";
  } catch (const Error &error) {
    EXPECT_EQ(error.id(), ErrorId::RuntimeUnsupported) << error.what();
    EXPECT_THAT(error.what(), HasSubstr("refused cannot be captured"));
  }
}

} // namespace
