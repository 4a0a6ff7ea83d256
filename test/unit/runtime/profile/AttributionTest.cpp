//===- AttributionTest.cpp - A device's work, by the plan's instructions --===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/profile/Attribution.h"
#include "runtime/profile/Summary.h"
#include "runtime/profile/Trace.h"
#include "test/unit/runtime/TemporaryFolder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>

using namespace fsdp;
using namespace fsdp::test;
using testing::ElementsAre;

namespace {

class Unlisted final : public DeviceActivities {
public:
  void begin() override {}
  void end() override {}
  void enter(uint64_t) override {}
  void leave() noexcept override {}
  DeviceListing list() override { return {}; }
};

/// A gather, a kernel beside it, the wait for it, and a kernel behind that; of
/// two groups of two ranks. Times count from the begin of the run.
class AttributionTest : public testing::Test {
protected:
  enum : uint32_t { kStart, kFirst, kWait, kSecond };

  AttributionTest() {
    plan.training = std::make_unique<plan::TrainingT>();
    plan.training->device = "cuda:sm_90";
    plan.groups.push_back(std::make_unique<plan::GroupT>());
    plan.groups[0]->name = "shard";
    plan.groups[0]->size = 2;
    plan.groups[0]->stride = 1;
    plan.operators.push_back(std::make_unique<plan::OperatorT>());
    plan.operators[0]->name = "aten::add";
    plan.programs.push_back(std::make_unique<plan::ProgramT>());
    program = plan.programs[0].get();
    program->name = "train/step";
    program->futures = 1;
    for (int i = 0; i < 3; ++i) {
      program->values.push_back(std::make_unique<plan::ValueT>());
      program->values[i]->shape = {8};
    }
    plan::TransferT gather;
    gather.bucket = "layers.0";
    gather.stream = plan::Stream::gather;
    gather.inputs = {0};
    gather.outputs = {1};
    add(std::move(gather));
    addCall();
    add(plan::WaitT());
    addCall();
    words = {describeActivities(plan, *program)};
    recorder.watch(unlisted, /*rank=*/0);
    beginRun();
  }

  template <typename OpTy>
  void add(OpTy body) {
    auto instruction = std::make_unique<plan::InstructionT>();
    instruction->body.Set(std::move(body));
    program->instructions.push_back(std::move(instruction));
  }
  void addCall() {
    plan::CallT call;
    auto arg = std::make_unique<plan::ArgT>();
    arg->kind = plan::ArgKind::tensor;
    arg->values = {1};
    call.args.push_back(std::move(arg));
    call.results = {2};
    add(std::move(call));
  }
  void beginRun() {
    recorder.beginRun(/*step=*/7, /*microBatch=*/0, *program);
    recorder.endLoading();
    recorder.endRun();
    zero = recorder.runs().back().loaded;
  }
  void work(int rank, uint32_t run, uint32_t instruction, int64_t begin,
            int64_t end) {
    listing.activities.push_back(
        {zero + begin, zero + end, 0, true,
         DeviceMark{static_cast<uint32_t>(rank), run, instruction}.pack()});
  }
  RankProfile attribute(int rank = 0) {
    return attributeActivities(plan, words, recorder, rank, listing);
  }
  /// Instruction, begin, end, of which busy.
  using Row = std::array<int64_t, 4>;
  std::vector<Row> rows(const std::vector<ProfileRecord> &records) const {
    std::vector<Row> all;
    for (const ProfileRecord &each : records)
      all.push_back(
          {each.instruction, each.begin - zero, each.end - zero, each.busy()});
    return all;
  }

  plan::PlanT plan;
  plan::ProgramT *program;
  std::vector<std::vector<Activity>> words;
  Unlisted unlisted;
  ProfileRecorder recorder{plan, 100, 10, 10};
  DeviceListing listing;
  int64_t zero = 0;
};

TEST_F(AttributionTest, LaneIsWhatTheComputeStreamDid) {
  work(0, 0, kStart, 10, 300);
  work(0, 0, kFirst, 20, 120);
  work(0, 0, kSecond, 310, 400);
  RankProfile profile = attribute();
  EXPECT_TRUE(profile.isOnDevice);
  EXPECT_THAT(rows(profile.records),
              ElementsAre(Row{kStart, 0, 0, 0}, Row{kFirst, 20, 120, 100},
                          Row{kWait, 120, 300, 180},
                          Row{kSecond, 310, 400, 90}));
  EXPECT_THAT(rows(profile.moves), ElementsAre(Row{kStart, 10, 300, 290}));
  EXPECT_EQ(profile.runs[0].end - zero, 400);
}

TEST_F(AttributionTest, OrderOfTheListingDoesNotMatter) {
  work(0, 0, kStart, 10, 300);
  work(0, 0, kStart, 2, 8);
  work(0, 0, kFirst, 20, 60);
  work(0, 0, kFirst, 70, 120);
  work(0, 0, kSecond, 310, 400);
  std::vector<Row> expected = rows(attribute().records);
  std::vector<Row> moves = rows(attribute().moves);
  EXPECT_THAT(moves, ElementsAre(Row{kStart, 2, 300, 298}));
  std::ranges::reverse(listing.activities);
  EXPECT_EQ(rows(attribute().records), expected);
  EXPECT_EQ(rows(attribute().moves), moves);
  std::ranges::rotate(listing.activities, listing.activities.begin() + 2);
  EXPECT_EQ(rows(attribute().records), expected);
}

TEST_F(AttributionTest, GapsBetweenAnInstructionsKernelsAreNotBusy) {
  work(0, 0, kFirst, 20, 60);
  work(0, 0, kFirst, 50, 70); // beside the first
  work(0, 0, kFirst, 100, 120);
  RankProfile profile = attribute();
  ASSERT_EQ(profile.records.size(), 3u);
  EXPECT_EQ(rows(profile.records)[1], (Row{kFirst, 20, 120, 70}));
}

TEST_F(AttributionTest, WaitsForWhatIsOverTakeNoTime) {
  work(0, 0, kStart, 10, 90);
  work(0, 0, kFirst, 20, 120);
  EXPECT_EQ(rows(attribute().records)[2], (Row{kWait, 120, 120, 0}));
}

/// What a library puts behind a transfer is not waited for.
TEST_F(AttributionTest, WaitsEndWhenTheNextKernelBegins) {
  work(0, 0, kStart, 10, 350);
  work(0, 0, kFirst, 20, 120);
  work(0, 0, kSecond, 310, 400);
  EXPECT_EQ(rows(attribute().records)[2], (Row{kWait, 120, 310, 190}));
}

/// Of ranks that share a device the last one to start puts a transfer there.
TEST_F(AttributionTest, TransfersOfRanksThatShareADeviceAreThoseOfTheirGroup) {
  recorder.watch(unlisted, 2);
  work(1, 0, kStart, 10, 50);
  work(3, 0, kStart, 20, 300);
  work(2, 0, kFirst, 20, 120);
  EXPECT_THAT(rows(attribute(2).moves), ElementsAre(Row{kStart, 20, 300, 280}));
  EXPECT_EQ(rows(attribute(2).records)[2], (Row{kWait, 120, 300, 180}));
  EXPECT_THAT(rows(attribute(0).moves), ElementsAre(Row{kStart, 10, 50, 40}));
  EXPECT_THAT(rows(attribute(0).records),
              ElementsAre(Row{kStart, 0, 0, 0}, Row{kWait, 0, 50, 50}))
      << "kernels are the rank's own";
}

/// Libraries put transfers on a device from threads of their own.
TEST_F(AttributionTest, UnmarkedWorkBelongsToTheStartThatItWasAskedIn) {
  recorder.beginRun(7, 1, *program);
  recorder.endLoading();
  recorder.add(kStart, zero + 1000, zero + 1010);
  recorder.endRun();
  work(0, 1, kFirst, 1020, 1030);
  auto unmarked = [&](int64_t asked, int64_t begin, int64_t end) {
    listing.activities.push_back(
        {zero + begin, zero + end, zero + asked, false, 0});
  };
  unmarked(999, 1001, 1002);
  unmarked(1005, 1100, 1200);
  unmarked(1010, 1210, 1300);
  unmarked(1011, 1310, 9000);
  RankProfile profile = attribute();
  ASSERT_EQ(profile.moves.size(), 1u);
  EXPECT_EQ(profile.moves[0].run, 1u);
  EXPECT_EQ(rows(profile.moves)[0], (Row{kStart, 1100, 1300, 200}));
}

/// The host puts the next micro-batch on the device while it still computes.
TEST_F(AttributionTest, RunsDoNotBeginBeforeTheDeviceIsDoneWithTheLast) {
  int64_t first = zero;
  beginRun();
  // However long the host took between them.
  int64_t done = zero - first + 1000;
  zero = first;
  work(0, 0, kFirst, 20, done);
  work(0, 1, DeviceMark::kInputs, done + 100, done + 200);
  work(0, 1, kFirst, done + 300, done + 400);
  RankProfile profile = attribute();
  ASSERT_EQ(profile.runs.size(), 2u);
  EXPECT_EQ(profile.runs[1].begin - zero, done);
  EXPECT_EQ(profile.runs[1].loaded - zero, done + 200);
  EXPECT_EQ(profile.runs[1].end - zero, done + 400);
}

TEST_F(AttributionTest, WhatTheHostComputesIsTimedByTheHost) {
  recorder.beginRun(7, 1, *program);
  recorder.endLoading();
  zero = recorder.runs().back().loaded;
  recorder.add(kSecond, zero + 500, zero + 900);
  recorder.endRun();
  work(0, 1, kFirst, 600, 700);
  RankProfile profile = attribute();
  std::vector<Row> found = rows(profile.records);
  // Behind the device's kernel, which the host waited for.
  EXPECT_EQ(found.back(), (Row{kSecond, 700, 900, 200}));
}

TEST_F(AttributionTest, TraceAndTableSayWhenTransfersMoved) {
  work(0, 0, kStart, 10, 300);
  work(0, 0, kFirst, 20, 60);
  work(0, 0, kFirst, 100, 120);
  work(0, 0, kSecond, 310, 400);
  listing.lost = 3;
  recorder.addStep(7, zero - 100, zero + 500);
  std::vector<RankProfile> profiles{attribute()};
  ProfileSummary summary = summarizeProfile(words, profiles);
  const TimeShares &shares = summary.ranks[0];
  EXPECT_EQ(shares.compute, 40 + 20 + 90);
  EXPECT_EQ(shares.exposed, 180);
  EXPECT_EQ(shares.starts, 0);
  EXPECT_EQ(summary.buckets[0].second.at("all_gather").moving, 290);
  EXPECT_THAT(printSummary(summary), testing::HasSubstr("moves ms"));

  TemporaryFolder folder;
  std::string path = folder.path() + "/trace.json";
  writeTrace(path, plan, words, profiles, summary);
  nlohmann::json trace = nlohmann::json::parse(std::ifstream(path));
  int labels = 0, transfers = 0, kernels = 0;
  for (const auto &event : trace["traceEvents"]) {
    if (event["name"] == "process_labels") {
      ++labels;
      EXPECT_EQ(event["args"]["labels"], "cuda:sm_90");
    }
    if (event.value("cat", "") == "transfer" && event["ph"] == "X") {
      ++transfers;
      EXPECT_NEAR(event["dur"], 0.290, 1e-9);
      EXPECT_NEAR(event["args"]["moves_us"], 0.290, 1e-9);
      EXPECT_NEAR(event["args"]["exposed_us"], 0.180, 1e-9);
    }
    if (event.value("cat", "") == "compute" &&
        event["args"]["instruction"] == 1) {
      ++kernels;
      EXPECT_NEAR(event["dur"], 0.100, 1e-9);
      EXPECT_NEAR(event["args"]["busy_us"], 0.060, 1e-9);
    }
  }
  EXPECT_EQ(labels, 1);
  EXPECT_EQ(transfers, 1);
  EXPECT_EQ(kernels, 1);
  EXPECT_EQ(trace["fsdp"]["ranks"][0]["lost_activities"], 3);
  EXPECT_NEAR(trace["fsdp"]["transfers"][0]["moving_us"], 0.290, 1e-9);
}

} // namespace
