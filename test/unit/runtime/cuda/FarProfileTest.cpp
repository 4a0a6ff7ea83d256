//===- FarProfileTest.cpp - Profiles of runs on a device ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "FarDevice.h"
#include "plan/Activities.h"
#include "runtime/train/Profiler.h"
#include "test/unit/runtime/TemporaryFolder.h"
#include "test/unit/runtime/TinyModel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <fstream>
#include <map>
#include <set>

using namespace fsdp;
using namespace fsdp::test;
using testing::HasSubstr;

/// Both ranks' programs are issued by one thread, and each rank's work is told
/// from the other's.
TEST(FarProfileTest, OneFileHasTheWorkOfAllRanksOnADevice) {
  TinyModel model;
  model.worldSize = 2;
  TemporaryFolder folder;
  LaunchOptions options = model.writeForThreads(folder.path());
  std::string path = folder.path() + "/trace.json";
  std::string table;
  std::string error = launchFar(options, [&](Session &session) {
    Profiler profiler(session, path, {/*first=*/1, /*count=*/2});
    auto last = std::chrono::steady_clock::now();
    for (uint64_t step = 0; step < 4; ++step) {
      profiler.beginStep(step);
      session.step();
      auto now = std::chrono::steady_clock::now();
      profiler.endStep(step, last, now);
      last = now;
      bool isOutside = profiler.finishStep(step);
      EXPECT_EQ(isOutside, step == 0 || step == 2)
          << "listing begins, and the file is written, outside of steps";
      last = std::chrono::steady_clock::now();
    }
    if (session.rank() == 0)
      table = profiler.summary();
  });
  ASSERT_EQ(error, "");
  EXPECT_THAT(table, HasSubstr("profile of steps 1 to 2"));
  EXPECT_THAT(table, HasSubstr("moves ms"));

  plan::PlanT plan = model.makePlan();
  std::vector<Activity> words = describeActivities(plan, *plan.programs[0]);
  nlohmann::json trace = nlohmann::json::parse(std::ifstream(path));
  using Key = std::pair<int, int>; // rank, step
  std::map<Key, std::map<int, int>> counts;
  std::map<Key, double> ends;
  for (const auto &event : trace["traceEvents"]) {
    std::string category = event.value("cat", "");
    if (event["ph"] != "X" ||
        (category != "compute" && category != "start" && category != "wait"))
      continue;
    Key key{event["pid"], event["args"]["step"]};
    int instruction = event["args"]["instruction"];
    ++counts[key][instruction];
    EXPECT_EQ(event["name"], words[instruction].name);
    // One after another, as on a thread.
    EXPECT_GE(event["ts"].get<double>(), ends[key] - 2e-3);
    ends[key] = event["ts"].get<double>() + event["dur"].get<double>();
  }
  ASSERT_EQ(counts.size(), 4u) << "two ranks, two steps";
  for (const auto &[key, each] : counts) {
    EXPECT_TRUE(key.second == 1 || key.second == 2);
    for (size_t i = 0; i < words.size(); ++i) {
      bool isView = words[i].name.starts_with("aten::t");
      EXPECT_EQ(each.contains(static_cast<int>(i)), !isView) << words[i].name;
    }
  }
  const nlohmann::json &ranks = trace["fsdp"]["ranks"];
  ASSERT_EQ(ranks.size(), 2u);
  for (const auto &rank : ranks) {
    EXPECT_GT(rank["compute_us"], 0);
    EXPECT_GE(rank["other_us"], 0);
    EXPECT_EQ(rank["lost_activities"], 0);
  }
}
