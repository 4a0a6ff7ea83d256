//===- SimulatorTest.cpp - How a plan will run ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "simulate/Simulator.h"

#include "support/Error.h"
#include "test/unit/simulate/SmallPlan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

using namespace fsdp;
using fsdp::test::plainCluster;
using fsdp::test::SmallPlan;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

namespace {

constexpr double kTiny = 1e-9;

PredictedProgram run(const SmallPlan &small,
                     const Cluster &cluster = plainCluster()) {
  return simulate(small.plan, cluster).programs.front();
}

/// A gather and a kernel behind its start, which takes so many milliseconds,
/// and then the wait.
void gatherOver(SmallPlan &small, double gather, double kernel) {
  uint32_t future = small.gather(gather);
  small.kernel(kernel);
  small.wait(future);
}

/// Whose kernels run on the host.
SmallPlan hostPlan() {
  SmallPlan small;
  small.plan.training->device = "cpu";
  return small;
}

/// Begin and end in milliseconds.
MATCHER_P2(Takes, begin, end, "") {
  *result_listener << 1e3 * arg.begin << " to " << 1e3 * arg.end << " ms";
  return std::abs(arg.begin - 1e-3 * (begin)) < kTiny &&
         std::abs(arg.end - 1e-3 * (end)) < kTiny;
}

TEST(Simulator, HidesAGatherBehindKernels) {
  SmallPlan small;
  gatherOver(small, 1, 3);
  small.kernel(1);
  PredictedProgram program = run(small);
  EXPECT_NEAR(program.seconds, 4e-3, kTiny);
  EXPECT_NEAR(program.compute, 4e-3, kTiny);
  EXPECT_NEAR(program.exposed, 0, kTiny);
  EXPECT_THAT(program.kernels, ElementsAre(Takes(0, 3), Takes(3, 4)));
  ASSERT_EQ(program.transfers.size(), 1u);
  const PredictedTransfer &transfer = program.transfers[0];
  EXPECT_THAT(transfer, Takes(0, 1));
  EXPECT_NEAR(transfer.asked, 3e-3, kTiny);
  EXPECT_NEAR(transfer.exposed(), 0, kTiny);
  EXPECT_EQ(transfer.bytes, 2000000u);
  EXPECT_EQ(transfer.kind, "all_gather");
  EXPECT_EQ(transfer.start, 0u);
  EXPECT_EQ(transfer.wait, 2u);
}

TEST(Simulator, ExposesWhatKernelsDoNotHide) {
  SmallPlan small;
  small.kernel(1);
  gatherOver(small, 5, 2);
  small.kernel(1);
  PredictedProgram program = run(small);
  EXPECT_NEAR(program.seconds, 7e-3, kTiny);
  EXPECT_NEAR(program.compute, 4e-3, kTiny);
  EXPECT_NEAR(program.exposed, 3e-3, kTiny);
  EXPECT_THAT(program.transfers, ElementsAre(Takes(1, 6)));
  EXPECT_NEAR(program.transfers[0].given, 1e-3, kTiny);
  EXPECT_NEAR(program.transfers[0].exposed(), 3e-3, kTiny);
  EXPECT_THAT(program.kernels,
              ElementsAre(Takes(0, 1), Takes(1, 3), Takes(6, 7)));
}

TEST(Simulator, KeepsTheOrderOfAStream) {
  SmallPlan small;
  uint32_t first = small.gather(1, "first"), second = small.gather(2, "second");
  small.wait(second);
  small.wait(first);
  PredictedProgram program = run(small);
  EXPECT_THAT(program.transfers, ElementsAre(Takes(0, 1), Takes(1, 3)));
  EXPECT_NEAR(program.transfers[1].given, 0, kTiny);
  // It was there when it was waited for.
  EXPECT_NEAR(program.transfers[0].exposed(), 0, kTiny);
  EXPECT_NEAR(program.exposed, 3e-3, kTiny);
}

TEST(Simulator, SharesALinkAmongTransfers) {
  SmallPlan small;
  uint32_t gather = small.gather(1), reduction = small.reduce(1);
  small.wait(gather);
  small.wait(reduction);
  EXPECT_THAT(run(small).transfers, ElementsAre(Takes(0, 2), Takes(0, 2)));
}

TEST(Simulator, GivesALinkToTheTransferThatIsLeft) {
  SmallPlan small;
  uint32_t gather = small.gather(1), reduction = small.reduce(3);
  small.wait(gather);
  small.wait(reduction);
  PredictedProgram program = run(small);
  EXPECT_THAT(program.transfers, ElementsAre(Takes(0, 2), Takes(0, 4)));
  EXPECT_NEAR(program.transfers[1].alone, 3e-3, kTiny);
}

TEST(Simulator, TakesMultiprocessorsFromKernels) {
  Cluster cluster = plainCluster();
  cluster.network.processor = 0.25;
  SmallPlan small;
  gatherOver(small, 3, 3);
  PredictedProgram program = run(small, cluster);
  // Three quarters of it in 3 ms, the rest alone.
  EXPECT_THAT(program.kernels, ElementsAre(Takes(0, 3.75)));
  EXPECT_THAT(program.transfers, ElementsAre(Takes(0, 3)));
}

TEST(Simulator, SharesTheMemorysBandwidth) {
  Cluster cluster = plainCluster();
  // As many bytes as it brings take all of it.
  cluster.network.traffic = 0.5;
  SmallPlan small;
  gatherOver(small, 1, 1);
  PredictedProgram program = run(small, cluster);
  EXPECT_THAT(program.kernels, ElementsAre(Takes(0, 2)));
  EXPECT_THAT(program.transfers, ElementsAre(Takes(0, 2)));
}

TEST(Simulator, WaitsForTheHostToIssue) {
  Cluster cluster = plainCluster();
  cluster.device.issue = 1e-3;
  SmallPlan small;
  small.kernel(0.25);
  small.kernel(0.25);
  gatherOver(small, 1, 4);
  small.kernel(1);
  PredictedProgram program = run(small, cluster);
  EXPECT_THAT(program.kernels, ElementsAre(Takes(1, 1.25), Takes(2, 2.25),
                                           Takes(4, 8), Takes(8, 9)));
  EXPECT_THAT(program.transfers, ElementsAre(Takes(3, 4)));
  EXPECT_NEAR(program.idle, 3.5e-3, kTiny);
  EXPECT_NEAR(program.compute, 5.5e-3, kTiny);
  EXPECT_NEAR(program.seconds, program.compute + program.idle + program.exposed,
              kTiny);
}

TEST(Simulator, CountsTheSecondsOfKindsAsTheyRan) {
  Cluster cluster = plainCluster();
  cluster.network.processor = 0.5;
  cluster.device.issue = 1e-4;
  SmallPlan small;
  gatherOver(small, 2, 3);
  PredictedProgram program = run(small, cluster);
  EXPECT_NEAR(
      std::accumulate(program.byKind.begin(), program.byKind.end(), 0.0),
      program.compute, kTiny);
  EXPECT_NEAR(program.byKind[size_t(WorkKind::copy)], program.compute, kTiny);
}

Cluster hostOf(double cores) {
  Cluster cluster = plainCluster();
  cluster.device.isHost = true;
  cluster.device.cores = cores;
  return cluster;
}

TEST(Simulator, SharesCoresAmongRanks) {
  SmallPlan small = hostPlan();
  small.kernel(1);
  EXPECT_THAT(run(small, hostOf(4)).kernels, ElementsAre(Takes(0, 1)));
  EXPECT_THAT(run(small, hostOf(2)).kernels, ElementsAre(Takes(0, 1)));
  EXPECT_THAT(run(small, hostOf(1)).kernels, ElementsAre(Takes(0, 2)));
  // No more of them than a node has.
  small.plan.mesh[0]->size = 64;
  EXPECT_THAT(run(small, hostOf(1)).kernels, ElementsAre(Takes(0, 2)));
}

TEST(Simulator, SlowsTransfersOfAHostLikeKernels) {
  Cluster cluster = hostOf(2);
  cluster.network.processor = 1;
  SmallPlan small = hostPlan();
  gatherOver(small, 1, 2);
  PredictedProgram program = run(small, cluster);
  EXPECT_THAT(program.transfers, ElementsAre(Takes(0, 2)));
  EXPECT_THAT(program.kernels, ElementsAre(Takes(0, 3)));
}

TEST(Simulator, RunsTheMiddleOfAStepAsOftenAsItTakes) {
  SmallPlan small;
  small.program().part = plan::StepPart::first;
  uint32_t gather = small.gather(1);
  small.wait(gather);
  small.begin("train/middle", plan::StepPart::middle);
  small.kernel(2);
  small.begin("train/last", plan::StepPart::last);
  small.kernel(4);
  auto seconds = [&](uint32_t microBatches) {
    small.plan.training->gradient_accumulation_steps = microBatches;
    return simulate(small.plan, plainCluster()).seconds;
  };
  EXPECT_NEAR(seconds(3), 7e-3, kTiny);
  EXPECT_NEAR(seconds(6), 13e-3, kTiny);
  Prediction prediction = simulate(small.plan, plainCluster());
  ASSERT_EQ(prediction.programs.size(), 3u);
  EXPECT_EQ(prediction.programs[0].runs, 1u);
  EXPECT_EQ(prediction.programs[1].runs, 4u);
  EXPECT_EQ(prediction.programs[2].runs, 1u);
  EXPECT_NEAR(prediction.compute, 12e-3, kTiny);
  EXPECT_NEAR(prediction.exposed, 1e-3, kTiny);
  EXPECT_EQ(prediction.wireBytes, 2000000u);
}

/// Rows of numbers are tokens, unless inputs differ in how many.
TEST(Simulator, CountsTokens) {
  SmallPlan small;
  small.kernel(1);
  small.kernel(1);
  EXPECT_EQ(simulate(small.plan, plainCluster()).tokens, 0);
  auto add = [&](std::vector<int64_t> shape, plan::DType dtype) {
    auto binding = std::make_unique<plan::BindingT>();
    binding->input = int32_t(small.plan.inputs.size());
    auto input = std::make_unique<plan::InputT>();
    input->shape = std::move(shape);
    input->dtype = dtype;
    small.plan.inputs.push_back(std::move(input));
    small.program().arguments.push_back(std::move(binding));
  };
  add({3, 100}, plan::DType::i64);
  add({3, 50}, plan::DType::f32);
  small.plan.data_parallel = 2;
  small.plan.training->gradient_accumulation_steps = 4;
  Prediction prediction = simulate(small.plan, plainCluster());
  EXPECT_EQ(prediction.tokens, 2 * 4 * 300);
  EXPECT_NEAR(prediction.tokensPerSecond(), 2400 / 2e-3, 1);
  small.plan.training->grains = 5;
  EXPECT_EQ(simulate(small.plan, plainCluster()).tokens, 5 * 300);
  add({3, 99}, plan::DType::i64);
  EXPECT_EQ(simulate(small.plan, plainCluster()).tokens, 0);
}

TEST(Simulator, TakesTheFirstOfProgramsThatDifferInShapes) {
  SmallPlan small;
  small.kernel(1);
  small.begin("train/step[x.1=2048]");
  small.kernel(2);
  small.begin("eval/step");
  small.program().kind = plan::ProgramKind::eval;
  small.kernel(4);
  Prediction prediction = simulate(small.plan, plainCluster());
  ASSERT_EQ(prediction.programs.size(), 1u);
  EXPECT_NEAR(prediction.seconds, 1e-3, kTiny);
}

TEST(Simulator, SaysWhenMemoryIsUsed) {
  SmallPlan small;
  uint32_t a = small.slot(400), b = small.slot(200, 512);
  small.make(a); // in 0.4 µs
  small.kernel(1);
  uint32_t gather = small.gather(2);
  small.wait(gather);
  small.make(b);
  small.use(a);
  small.kernel(1);
  PredictedProgram program = run(small);
  // What a gather brings is there from its start to its wait, over what lies
  // there, too.
  auto at = [&](size_t i) { return 1e3 * program.uses[i].at; };
  ASSERT_EQ(program.uses.size(), 5u);
  EXPECT_EQ(program.uses[0].bytes, 400u);
  EXPECT_NEAR(at(0), 0, 1e-2);
  EXPECT_EQ(program.uses[1].bytes, 4000000u);
  EXPECT_NEAR(at(1), 1, 1e-2);
  EXPECT_EQ(program.uses[1].instruction, 2u);
  EXPECT_EQ(program.uses[2].bytes, 600u);
  EXPECT_NEAR(at(2), 3, 1e-2);
  EXPECT_EQ(program.uses[3].bytes, 400u);
  EXPECT_EQ(program.uses[4].bytes, 0u);
  EXPECT_NEAR(at(4), 3, 1e-2);
}

TEST(Simulator, SaysWhetherItFits) {
  SmallPlan small;
  small.kernel(1);
  Cluster cluster = plainCluster();
  Prediction prediction = simulate(small.plan, cluster);
  EXPECT_EQ(prediction.held(), 100000000u + 4096);
  EXPECT_TRUE(prediction.fits());
  small.plan.memory->scratch_bound = 900000000;
  EXPECT_FALSE(simulate(small.plan, cluster).fits());
}

TEST(Simulator, CallsTemporariesUnknownThatNobodyCounted) {
  SmallPlan small;
  small.kernel(1);
  Cluster cluster = plainCluster();
  EXPECT_THAT(simulate(small.plan, cluster).scratchUnknown, ElementsAre("all"));
  small.plan.memory->scratch_bound = 1000;
  EXPECT_THAT(simulate(small.plan, cluster).scratchUnknown, IsEmpty());
  small.plan.memory->scratch_unknown = {"aten.convolution"};
  Prediction prediction = simulate(small.plan, cluster);
  EXPECT_THAT(prediction.scratchUnknown, ElementsAre("aten.convolution"));
  EXPECT_EQ(prediction.held(), 100000000u + 4096 + 1000);
  // A host's are always counted.
  SmallPlan host = hostPlan();
  host.kernel(1);
  EXPECT_THAT(simulate(host.plan, hostOf(2)).scratchUnknown, IsEmpty());
}

TEST(Simulator, CountsBothMemoriesOfAHostForEachRank) {
  SmallPlan small = hostPlan();
  small.kernel(1);
  small.plan.host = std::make_unique<plan::MemoryT>();
  small.plan.host->peak = 1000;
  Prediction prediction = simulate(small.plan, hostOf(2));
  EXPECT_EQ(prediction.held(), 100000000u + 4096 + 1000);
  EXPECT_EQ(prediction.capacity, 500000000u);
}

TEST(Simulator, RefusesAnotherKindOfDevice) {
  SmallPlan small;
  auto refusal = [&](const Cluster &cluster) {
    try {
      simulate(small.plan, cluster);
    } catch (const Error &error) {
      return error.format();
    }
    return std::string();
  };
  EXPECT_THAT(refusal(hostOf(2)),
              AllOf(HasSubstr("expected a cluster whose device is of kind "
                              "cuda, as the plan's is; found 'plain', of kind "
                              "cpu"),
                    HasSubstr("'device' of the config says")));
  EXPECT_EQ(refusal(plainCluster()), "");
  // What says nothing is a host's.
  SmallPlan silent;
  silent.plan.training.reset();
  EXPECT_NO_THROW(simulate(silent.plan, hostOf(2)));
  EXPECT_THROW(simulate(silent.plan, plainCluster()), Error);
  small.plan.training->device = "cpu";
  EXPECT_THAT(refusal(plainCluster()), HasSubstr("of kind cpu, as the plan's"));
}

} // namespace
