//===- ProfileTest.cpp - What was recorded, and what is made of it --------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/comm/backends/Backends.h"
#include "runtime/launch/Launch.h"
#include "runtime/profile/Clocks.h"
#include "runtime/profile/Collect.h"
#include "runtime/profile/Summary.h"
#include "runtime/profile/Trace.h"
#include "runtime/train/Profiler.h"
#include "support/Error.h"
#include "test/unit/runtime/TemporaryFolder.h"
#include "test/unit/runtime/TinyModel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <fstream>
#include <mutex>
#include <thread>

using namespace fsdp;
using namespace fsdp::test;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

//===----------------------------------------------------------------------===//
// Recording
//===----------------------------------------------------------------------===//

TEST(ProfileRecorderTest, KeepsRecordsInOrderAndCountsWhatHasNoRoom) {
  plan::PlanT plan = TinyModel().makePlan();
  ProfileRecorder recorder(plan, /*records=*/2, /*runs=*/1, /*steps=*/1);
  const ProfileRecord *memory = recorder.records();
  recorder.beginRun(7, 0, *plan.programs[0]);
  recorder.endLoading();
  for (int i = 0; i < 3; ++i)
    recorder.add(static_cast<uint32_t>(i), 10 * i, 10 * i + 5);
  recorder.endRun();
  EXPECT_EQ(recorder.records(), memory);
  ASSERT_EQ(recorder.recordCount(), 2u);
  EXPECT_EQ(recorder.records()[1].instruction, 1u);
  EXPECT_EQ(recorder.records()[1].begin, 10);
  EXPECT_EQ(recorder.records()[1].end, 15);
  EXPECT_EQ(recorder.dropped(), 1u);
  ASSERT_EQ(recorder.runs().size(), 1u);
  const ProfileRun &run = recorder.runs()[0];
  EXPECT_EQ(run.step, 7u);
  EXPECT_LE(run.begin, run.loaded);
  EXPECT_LE(run.loaded, run.end);
}

/// Views and `free` leave nothing to do; all else is there once a step, in
/// order, and one after another.
TEST(ProfileRecorderTest, HoldsEveryInstructionThatDoesSomething) {
  TinyModel model;
  model.worldSize = 2;
  TemporaryFolder folder;
  LaunchOptions options = model.writeForThreads(folder.path());
  plan::PlanT plan = model.makePlan();
  const plan::ProgramT &program = *plan.programs[0];
  std::vector<uint32_t> expected;
  for (uint32_t i = 0; i < program.instructions.size(); ++i) {
    const plan::CallT *call = program.instructions[i]->body.AsCall();
    if (!call || plan.operators[call->op]->name != "aten::t")
      expected.push_back(i);
  }
  ASSERT_LT(expected.size(), program.instructions.size());
  std::mutex mutex;
  int checked = 0;
  launch(options, [&](Session &session) {
    ProfileRecorder recorder(session.plan(), 1000, 10, 10);
    session.step();
    session.record(&recorder);
    session.step();
    session.step();
    session.record(nullptr);
    session.step();
    std::lock_guard lock(mutex);
    ++checked;
    ASSERT_EQ(recorder.runs().size(), 2u);
    ASSERT_EQ(recorder.recordCount(), 2 * expected.size());
    int64_t last = 0;
    for (size_t i = 0; i < recorder.recordCount(); ++i) {
      const ProfileRecord &record = recorder.records()[i];
      size_t run = i / expected.size();
      EXPECT_EQ(record.run, run);
      EXPECT_EQ(record.instruction, expected[i % expected.size()]);
      EXPECT_GE(record.begin, std::max(last, recorder.runs()[run].loaded));
      EXPECT_GE(record.end, record.begin);
      EXPECT_LE(record.end, recorder.runs()[run].end);
      last = record.end;
    }
    EXPECT_EQ(recorder.runs()[0].step, 1u);
    EXPECT_EQ(recorder.runs()[1].step, 2u);
  });
  EXPECT_EQ(checked, 2);
}

TEST(ProfileStepsTest, SkipWarmUpUnlessTheRunIsShort) {
  auto parse = [](const char *text, uint64_t steps) {
    ProfileSteps result = parseProfileSteps(text, steps);
    return std::pair(result.first, result.count);
  };
  EXPECT_EQ(parse("", 1), std::pair(uint64_t(0), uint64_t(1)));
  EXPECT_EQ(parse("", 3), std::pair(uint64_t(2), uint64_t(1)));
  EXPECT_EQ(parse("", 5), std::pair(uint64_t(3), uint64_t(2)));
  EXPECT_EQ(parse("", 100), std::pair(uint64_t(3), uint64_t(5)));
  EXPECT_EQ(parse("0:3", 3), std::pair(uint64_t(0), uint64_t(3)));
  EXPECT_EQ(parse("90:10", 100), std::pair(uint64_t(90), uint64_t(10)));
  for (const char *text : {"3", "3:", ":3", "3:0", "a:1", "1:2x", "-1:2", "3:1",
                           "2:2", "0:18446744073709551615", "1:2:3"})
    EXPECT_THROW(parse(text, 3), Error) << text;
  EXPECT_THROW(parse("", 0), Error);
}

//===----------------------------------------------------------------------===//
// Bringing the ranks together
//===----------------------------------------------------------------------===//

/// Runs `body` on each of `world` ranks, which are threads.
void onRanks(int world, const std::function<void(Fabric &)> &body) {
  FabricOptions options;
  options.worldSize = world;
  auto fabrics = findBackend("local").connect(options);
  std::vector<std::thread> threads;
  for (auto &fabric : fabrics)
    threads.emplace_back([&body, &fabric] { body(*fabric); });
  for (std::thread &thread : threads)
    thread.join();
}

TEST(ProfileClocksTest, FindOffsetsWithinTheUncertaintyTheyClaim) {
  constexpr int kWorld = 3;
  // Far apart, before and behind.
  constexpr int64_t kSkew[kWorld] = {1'000'000, 5'000'000'000, -77'000'000'000};
  std::vector<ClockOffset> found(kWorld);
  onRanks(kWorld, [&](Fabric &fabric) {
    auto communicator = fabric.createCommunicator({"clock", {0, 1, 2}});
    int64_t skew = kSkew[fabric.rank()];
    found[fabric.rank()] = measureClock(
        *communicator, 50, [&] { return ProfileRecorder::now() + skew; });
  });
  EXPECT_EQ(found[0].offset, 0);
  EXPECT_EQ(found[0].uncertainty, 0);
  for (int rank = 1; rank < kWorld; ++rank) {
    int64_t error = found[rank].offset - (kSkew[0] - kSkew[rank]);
    EXPECT_LE(std::abs(error), found[rank].uncertainty) << rank;
    EXPECT_GT(found[rank].uncertainty, 0);
    // Fifty rounds among threads: one of them is not disturbed for long.
    EXPECT_LT(found[rank].uncertainty, 100'000'000);
  }
}

/// More than travels at once, and not the same number on all ranks.
TEST(ProfileCollectTest, BringsAllRecordsToRankZero) {
  constexpr int kWorld = 3;
  auto count = [](int rank) { return size_t(250'000) * (2 - rank) + 17; };
  plan::PlanT plan = TinyModel().makePlan();
  std::vector<std::vector<RankProfile>> collected(kWorld);
  onRanks(kWorld, [&](Fabric &fabric) {
    int rank = fabric.rank();
    ProfileRecorder recorder(plan, count(rank), 2, 1);
    for (uint64_t run = 0; run < 2; ++run) {
      recorder.beginRun(5, run, *plan.programs[0]);
      recorder.endLoading();
      for (size_t i = run; i < count(rank); i += 2)
        recorder.add(static_cast<uint32_t>(i), rank, static_cast<int64_t>(i));
      recorder.endRun();
    }
    recorder.addStep(5, 100 + rank, 200);
    collected[rank] = collectProfiles(profileOf(recorder), fabric);
  });
  EXPECT_TRUE(collected[1].empty());
  EXPECT_TRUE(collected[2].empty());
  ASSERT_EQ(collected[0].size(), size_t(kWorld));
  for (int rank = 0; rank < kWorld; ++rank) {
    const RankProfile &profile = collected[0][rank];
    ASSERT_EQ(profile.steps.size(), 1u);
    EXPECT_EQ(profile.steps[0].begin, 100 + rank);
    ASSERT_EQ(profile.runs.size(), 2u);
    EXPECT_EQ(profile.runs[1].microBatch, 1u);
    EXPECT_EQ(profile.clockUncertainty, 0) << "threads share a clock";
    ASSERT_EQ(profile.records.size(), count(rank));
    size_t half = (count(rank) + 1) / 2, wrong = 0;
    for (size_t i = 0; i < count(rank); ++i) {
      const ProfileRecord &record = profile.records[i];
      size_t number = i < half ? 2 * i : 2 * (i - half) + 1;
      wrong += record.instruction != number || record.begin != rank ||
               record.end != static_cast<int64_t>(number) ||
               record.run != (i < half ? 0u : 1u);
    }
    EXPECT_EQ(wrong, 0u) << rank;
  }
}

//===----------------------------------------------------------------------===//
// What is made of the records
//===----------------------------------------------------------------------===//

/// Two gathers in flight at once, a kernel on the first one's parameter, and a
/// reduction; a second rank that is slower.
class MadeUpProfile : public testing::Test {
protected:
  MadeUpProfile() {
    plan.groups.push_back(std::make_unique<plan::GroupT>());
    plan.groups[0]->name = "shard";
    plan.groups[0]->size = 2;
    plan.locations = {"layers.0 (model.py:12)", "model.py:9", "layers.1"};
    plan.operators.push_back(std::make_unique<plan::OperatorT>());
    plan.operators[0]->name = "aten::add";
    plan.operators[0]->overload = "Tensor";
    plan.programs.push_back(std::make_unique<plan::ProgramT>());
    program = plan.programs[0].get();
    program->name = "train/step";
    program->futures = 3;
    for (int i = 0; i < 6; ++i) {
      program->values.push_back(std::make_unique<plan::ValueT>());
      program->values[i]->shape = {i < 4 ? 8 : 4};
    }
    // A view of the first gathered parameter.
    program->values[2]->place = plan::Place::view;
    program->values[2]->base = 0;
    for (uint32_t i : {0u, 1u}) {
      plan::TransferT gather;
      gather.bucket = "layers." + std::to_string(i);
      gather.stream = plan::Stream::gather;
      gather.inputs = {4 + i};
      gather.outputs = {i};
      gather.future = i;
      add(std::move(gather));
    }
    addWait(0);
    plan::CallT call;
    auto arg = std::make_unique<plan::ArgT>();
    arg->kind = plan::ArgKind::tensor;
    arg->values = {2};
    call.args.push_back(std::move(arg));
    call.results = {3};
    add(std::move(call), 0);
    addWait(1);
    plan::TransferT reduce;
    reduce.kind = plan::CollectiveKind::reduce_scatter;
    reduce.bucket = "layers.0";
    reduce.stream = plan::Stream::reduce;
    reduce.inputs = {3};
    reduce.outputs = {4};
    reduce.future = 2;
    add(std::move(reduce), 1);
    addWait(2, 2);

    for (int64_t slower : {1, 3}) {
      RankProfile profile;
      profile.host = "\"host\"";
      profile.steps = {{3, 1000, 1000 + 100 * slower}};
      profile.runs = {{3, 0, 0, 1005, 1007, 1000 + 95 * slower}};
      int64_t time = 1010;
      for (uint32_t i = 0; i < 7; ++i) {
        profile.records.push_back({time, time + slower * (i + 1), i, 0});
        time = profile.records.back().end + 2;
      }
      profiles.push_back(profile);
    }
  }

  template <typename OpTy>
  void add(OpTy body, int32_t at = -1) {
    auto instruction = std::make_unique<plan::InstructionT>();
    instruction->body.Set(std::move(body));
    instruction->at = at;
    program->instructions.push_back(std::move(instruction));
  }
  void addWait(uint32_t future, int32_t at = -1) {
    plan::WaitT wait;
    wait.future = future;
    add(std::move(wait), at);
  }
  std::vector<std::vector<Activity>> activities() const {
    return {describeActivities(plan, *program)};
  }

  plan::PlanT plan;
  plan::ProgramT *program;
  std::vector<RankProfile> profiles;
};

TEST_F(MadeUpProfile, InstructionsAreNamedAfterThePlan) {
  std::vector<Activity> found = activities()[0];
  ASSERT_EQ(found.size(), 7u);
  EXPECT_EQ(found[0].name, "all_gather.start layers.0");
  EXPECT_EQ(found[0].bytes, 2 * 4 * 4u);
  EXPECT_EQ(found[0].group, "dp_shard");
  EXPECT_EQ(found[2].name, "wait all_gather layers.0");
  EXPECT_EQ(found[2].bytes, found[0].bytes);
  EXPECT_EQ(found[3].name, "aten::add.Tensor");
  EXPECT_EQ(found[3].module, "layers.0");
  EXPECT_EQ(found[3].source, "model.py:12");
  EXPECT_EQ(found[3].result, "f32[8]");
  EXPECT_EQ(found[3].bucket, "layers.0") << "it reads a view of its parameter";
  EXPECT_EQ(found[5].module, "");
  EXPECT_EQ(found[5].source, "model.py:9");
  EXPECT_EQ(found[6].module, "layers.1");
  EXPECT_EQ(found[6].collective, "reduce_scatter");
  TinyModel tiny;
  tiny.worldSize = 2;
  plan::PlanT other = tiny.makePlan();
  std::vector<std::string> names;
  for (const Activity &each : describeActivities(other, *other.programs[0]))
    names.push_back(each.name);
  EXPECT_THAT(names, testing::IsSupersetOf({"zero_padding", "adamw",
                                            "all_reduce.start metrics"}));
}

TEST_F(MadeUpProfile, SharesOfARankAddUpToItsStep) {
  ProfileSummary summary = summarizeProfile(activities(), profiles);
  EXPECT_THAT(summary.steps, ElementsAre(3u));
  ASSERT_EQ(summary.ranks.size(), 2u);
  for (size_t rank = 0; rank < 2; ++rank) {
    int64_t slower = rank == 0 ? 1 : 3;
    const TimeShares &shares = summary.ranks[rank];
    EXPECT_EQ(shares.step, 100 * slower);
    EXPECT_EQ(shares.compute, 4 * slower);
    EXPECT_EQ(shares.exposed, (3 + 5 + 7) * slower);
    EXPECT_EQ(shares.starts, (1 + 2 + 6) * slower);
    EXPECT_EQ(shares.inputs, 2);
    EXPECT_EQ(shares.compute + shares.exposed + shares.starts + shares.inputs +
                  shares.other,
              shares.step);
  }
  ASSERT_EQ(summary.operators.size(), 1u);
  EXPECT_EQ(summary.operators[0].name, "aten::add.Tensor");
  EXPECT_EQ(summary.operators[0].calls, 2u);
  EXPECT_EQ(summary.operators[0].time, 4 + 12);
}

TEST_F(MadeUpProfile, TransfersAreInFlightFromStartToTheEndOfTheWait) {
  ProfileSummary summary = summarizeProfile(activities(), profiles);
  ASSERT_EQ(summary.buckets.size(), 2u);
  EXPECT_EQ(summary.buckets[0].first, "layers.0");
  const TransferTime &gather = summary.buckets[0].second.at("all_gather");
  EXPECT_EQ(gather.calls, 2u);
  EXPECT_EQ(gather.bytes, 2 * 32u);
  EXPECT_EQ(gather.exposed, 3 + 9);
  // Three instructions and the two gaps between them, on both ranks.
  EXPECT_EQ(gather.inFlight, (1 + 2 + 3 + 4) + (3 + 6 + 9 + 4));
  EXPECT_EQ(summary.buckets[0].second.at("reduce_scatter").exposed, 7 + 21);
  EXPECT_EQ(summary.buckets[1].second.at("all_gather").exposed, 5 + 15);
}

TEST_F(MadeUpProfile, TablesNameRanksOperatorsAndBuckets) {
  std::string text = printSummary(summarizeProfile(activities(), profiles));
  EXPECT_THAT(text, HasSubstr("compute"));
  EXPECT_THAT(text, HasSubstr("\nmean "));
  EXPECT_THAT(text, HasSubstr("aten::add.Tensor"));
  EXPECT_THAT(text, HasSubstr("layers.1"));
  EXPECT_THAT(text, HasSubstr("reduce_scatter"));
  EXPECT_THAT(text, testing::Not(HasSubstr(" \n")));
}

TEST_F(MadeUpProfile, TablesOfManyRanksAreCut) {
  profiles.resize(1);
  for (int rank = 1; rank < 100; ++rank) {
    profiles.push_back(profiles[0]);
    profiles.back().records[3].end += 100 - rank;
  }
  std::string text = printSummary(summarizeProfile(activities(), profiles));
  auto rowOf = [&](const std::string &rank) {
    return text.find("\n" + rank + " ");
  };
  // Most to do; least to do; neither.
  EXPECT_NE(rowOf("1"), std::string::npos);
  EXPECT_NE(rowOf("0"), std::string::npos);
  EXPECT_LT(rowOf("1"), rowOf("0"));
  EXPECT_EQ(rowOf("50"), std::string::npos);
}

TEST_F(MadeUpProfile, TraceIsOneFileWithoutOverlapOnAThread) {
  TemporaryFolder folder;
  std::string path = folder.path() + "/trace.json";
  ProfileSummary summary = summarizeProfile(activities(), profiles);
  writeTrace(path, plan, activities(), profiles, summary);
  nlohmann::json trace = nlohmann::json::parse(std::ifstream(path));
  std::map<std::pair<int, int>, std::string> threads;
  std::map<std::string, std::vector<nlohmann::json>> slices; // of rank 1
  std::map<std::string, int> flows;
  for (const auto &event : trace["traceEvents"]) {
    std::string phase = event["ph"];
    if (phase == "M" && event["name"] == "thread_name")
      threads[{event["pid"], event["tid"]}] = event["args"]["name"];
    else if (phase == "X" && event["pid"] == 1)
      slices[threads.at({1, event["tid"]})].push_back(event);
    else if (phase != "M" && phase != "X")
      ++flows[phase];
  }
  EXPECT_EQ(slices.at("compute").size(), 1 + 2 + 7u);
  EXPECT_EQ(slices.at("gather dp_shard").size(), 1u);
  EXPECT_EQ(slices.at("gather dp_shard (2)").size(), 1u);
  EXPECT_EQ(slices.at("reduce dp_shard").size(), 1u);
  const nlohmann::json &transfer = slices.at("gather dp_shard (2)")[0];
  EXPECT_EQ(transfer["name"], "all_gather layers.1");
  EXPECT_EQ(transfer["args"]["bucket"], "layers.1");
  EXPECT_EQ(transfer["args"]["bytes"], 32);
  EXPECT_EQ(transfer["args"]["step"], 3);
  // From the second record's begin to the fifth one's end: the first takes 3
  // ns, gaps take 2.
  EXPECT_NEAR(transfer["ts"], 0.010 + 0.003 + 0.002, 1e-9);
  EXPECT_NEAR(transfer["dur"], 0.001 * (6 + 9 + 12 + 15 + 3 * 2), 1e-9);
  EXPECT_NEAR(transfer["args"]["exposed_us"], 0.015, 1e-9);
  for (const char *phase : {"s", "t", "f"})
    EXPECT_EQ(flows[phase], 2 * 3) << phase;
  EXPECT_NEAR(trace["fsdp"]["ranks"][1]["step_us"], 0.3, 1e-9);
  EXPECT_EQ(trace["fsdp"]["ranks"][0]["host"], "\"host\"");
}

} // namespace
