//===- PredictionTest.cpp - A prediction for people and tools -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "simulate/PredictionText.h"

#include "test/unit/simulate/SmallPlan.h"
#include "test/unit/simulate/SmallProfile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

using namespace fsdp;
using fsdp::test::plainCluster;
using fsdp::test::SmallPlan;
using fsdp::test::SmallProfile;
using nlohmann::json;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

namespace {

/// 1 ms of kernels, of a gather of 3 ms 2 exposed, 1 ms of kernels.
SmallPlan samplePlan(const char *bucket = "layers.0") {
  SmallPlan small;
  uint32_t gather = small.gather(3, bucket);
  small.kernel(1);
  small.wait(gather);
  small.kernel(1);
  return small;
}

/// Of `samplePlan`: the start takes 1 ms, the kernel 4, the wait 5 and the last
/// kernel 2, each twice what is predicted or more.
Profile sampleProfile(const SmallPlan &small) {
  SmallProfile written(small.plan);
  written.add(0, 7, 0, {1, 4, 5, 2});
  return Profile::parse(written.text(), "trace.json", small.plan);
}

/// The data that stand in a page.
json readPage(const std::string &page) {
  std::string_view mark = "const DATA = ";
  size_t begin = page.find(mark) + mark.size();
  return json::parse(page.substr(begin, page.find(";\n", begin) - begin));
}

TEST(Prediction, IsTextForPeople) {
  SmallPlan small = samplePlan();
  std::string text =
      printPrediction(small.plan, simulate(small.plan, plainCluster()));
  EXPECT_THAT(text, HasSubstr("predicted step on plain, 2 ranks on 1 node"));
  EXPECT_THAT(text, HasSubstr("4.000"));
  EXPECT_THAT(text, HasSubstr("It fits."));
  EXPECT_THAT(text, HasSubstr("train/step, 4.000 ms"));
  EXPECT_THAT(text, HasSubstr("at 0.000 ms: all_gather.start layers.0 of "
                              "layers.0 (model.py:7)"));
  small.plan.memory->scratch_bound = 1000000000;
  EXPECT_THAT(printPrediction(small.plan, simulate(small.plan, plainCluster())),
              HasSubstr("It does not fit: "));
}

TEST(Prediction, NamesWhatIsUnknown) {
  SmallPlan small = samplePlan();
  small.plan.memory->scratch_bound = 2000000;
  small.plan.memory->scratch_unknown = {"aten.convolution"};
  Prediction prediction = simulate(small.plan, plainCluster());
  EXPECT_THAT(printPrediction(small.plan, prediction),
              AllOf(HasSubstr("kernels' temporaries, as far as known"),
                    ContainsRegex("beside it, of aten.convolution +unknown")));
  json data = json::parse(printPredictionJson(small.plan, prediction));
  EXPECT_EQ(data["memory"]["scratch_unknown"],
            json::array({"aten.convolution"}));
}

TEST(Prediction, IsJsonForTools) {
  SmallPlan small = samplePlan();
  json data = json::parse(
      printPredictionJson(small.plan, simulate(small.plan, plainCluster())));
  EXPECT_NEAR(data["seconds"], 4e-3, 1e-9);
  EXPECT_NEAR(data["exposed_seconds"], 2e-3, 1e-9);
  EXPECT_EQ(data["memory"]["fits"], true);
  const json &transfer = data["programs"][0]["transfers"][0];
  EXPECT_EQ(transfer["bucket"], "layers.0");
  EXPECT_EQ(transfer["bytes"], 6000000);
  EXPECT_NEAR(transfer["exposed_seconds"], 2e-3, 1e-9);
  EXPECT_NEAR(data["programs"][0]["kernel_seconds"]["copy"], 2e-3, 1e-9);
  EXPECT_EQ(data["programs"][0]["highest_use"]["bytes"], 6000000);
  EXPECT_EQ(data["programs"][0]["highest_use"]["source"], "model.py:7");
}

TEST(Prediction, IsATraceOfAllLanes) {
  SmallPlan small = samplePlan();
  json data = json::parse(
      printPredictionTrace(small.plan, simulate(small.plan, plainCluster())));
  double waited = 0, moved = 0;
  for (const json &event : data["traceEvents"]) {
    if (event.value("cat", "") == "wait")
      waited += double(event["dur"]);
    if (event.value("cat", "") == "transfer")
      moved += double(event["dur"]);
  }
  EXPECT_NEAR(waited, 2000, 1e-3);
  EXPECT_NEAR(moved, 3000, 1e-3);
}

TEST(Prediction, IsAPageWithItsDataInside) {
  SmallPlan small = samplePlan();
  std::string page =
      printPredictionPage(small.plan, simulate(small.plan, plainCluster()));
  EXPECT_THAT(page, testing::StartsWith("<!doctype html>"));
  // Nothing is fetched.
  for (const char *outside : {"http:", "https:", "src=", "@import", "url("})
    EXPECT_THAT(page, Not(HasSubstr(outside)));
  for (const char *left : {"/*STYLE*/", "/*SCRIPT*/", "/*DATA*/"})
    EXPECT_THAT(page, Not(HasSubstr(left)));
  json data = readPage(page);
  EXPECT_EQ(data["title"], "model.pt2");
  EXPECT_EQ(data["cluster"], "plain");
  EXPECT_EQ(data["length"], 4000000);
  const json &program = data["programs"][0], &kernels = program["kernels"];
  EXPECT_EQ(kernels["begin"], json::array({0, 3000000}));
  EXPECT_EQ(kernels["length"], json::array({1000000, 1000000}));
  EXPECT_EQ(data["kinds"][size_t(kernels["kind"][0])], "copy");
  EXPECT_EQ(data["strings"][size_t(kernels["module"][0])], "layers.0");
  const json &transfer = program["transfers"][0];
  EXPECT_EQ(data["streams"][size_t(transfer[0])], "gather");
  EXPECT_EQ(data["strings"][size_t(transfer[2])], "layers.0");
  EXPECT_EQ(transfer[6], 3000000);
  EXPECT_EQ(transfer[7], 1000000);
  EXPECT_EQ(program["uses"][0][1], 6000000);
}

TEST(Prediction, StandsBesideAMeasurementInTables) {
  SmallPlan small = samplePlan();
  Profile measured = sampleProfile(small);
  std::string text = printPrediction(
      small.plan, simulate(small.plan, plainCluster()), &measured);
  EXPECT_THAT(text, HasSubstr("beside 1 step measured on 1 rank"));
  EXPECT_THAT(text, testing::ContainsRegex("step +4.000 +12.000 +0.33 x"));
  EXPECT_THAT(text, testing::ContainsRegex("kernels +2.000 +6.000 +0.33 x"));
  EXPECT_THAT(text, testing::ContainsRegex(
                        "waiting for transfers +2.000 +5.000 +0.40 x"));
  EXPECT_THAT(text, testing::ContainsRegex("starting transfers +- +1.000"));
  EXPECT_THAT(text, testing::ContainsRegex("copy +2 +2.000 +6.000 +0.33 x"));
  EXPECT_THAT(text, HasSubstr("measured 12.000 ms in the median of 1 run"));
  // In flight 3 of 10 ms, exposed 2 of 5.
  EXPECT_THAT(text, testing::ContainsRegex("3.000 +10.000 +0.30 x +2.000 "
                                           "+5.000 +0.40 x"));
}

TEST(Prediction, StandsBesideAMeasurementInJson) {
  SmallPlan small = samplePlan();
  Profile measured = sampleProfile(small);
  json data = json::parse(printPredictionJson(
      small.plan, simulate(small.plan, plainCluster()), &measured));
  const json &beside = data["measured"];
  EXPECT_NEAR(beside["step"]["measured_seconds"], 12e-3, 1e-9);
  EXPECT_NEAR(beside["step"]["ratio"], 1.0 / 3, 1e-9);
  EXPECT_NEAR(beside["kernels"]["copy"]["measured_seconds"], 6e-3, 1e-9);
  EXPECT_NEAR(beside["starting_seconds"], 1e-3, 1e-9);
  const json &transfer = data["programs"][0]["transfers"][0];
  EXPECT_NEAR(transfer["in_flight_seconds"], 3e-3, 1e-9);
  EXPECT_NEAR(transfer["measured"]["in_flight_seconds"], 10e-3, 1e-9);
  EXPECT_NEAR(transfer["measured"]["ratio"], 0.3, 1e-9);
  EXPECT_NEAR(transfer["measured"]["exposed_seconds"], 5e-3, 1e-9);
  EXPECT_NEAR(data["programs"][0]["measured"]["seconds"], 12e-3, 1e-9);
}

TEST(Prediction, StandsBesideAMeasurementInTheTrace) {
  SmallPlan small = samplePlan();
  Profile measured = sampleProfile(small);
  json data = json::parse(printPredictionTrace(
      small.plan, simulate(small.plan, plainCluster()), &measured));
  double kernels[2] = {0, 0};
  for (const json &event : data["traceEvents"])
    if (event.value("name", "") == "copy")
      kernels[size_t(event["pid"])] += double(event["dur"]);
  EXPECT_NEAR(kernels[0], 2000, 1e-3);
  EXPECT_NEAR(kernels[1], 6000, 1e-3);
}

TEST(Prediction, StandsBesideAMeasurementOnThePage) {
  SmallPlan small = samplePlan();
  Profile measured = sampleProfile(small);
  json data = readPage(printPredictionPage(
      small.plan, simulate(small.plan, plainCluster()), &measured));
  EXPECT_EQ(data["measured"]["length"], 12000000);
  EXPECT_EQ(data["measured"]["steps"], 1);
  const json &program = data["programs"][0]["measured"];
  EXPECT_EQ(program["length"], 12000000);
  // The start is a slice of the thread like all others.
  const json &kernels = program["kernels"];
  EXPECT_EQ(kernels["begin"], json::array({0, 1000000, 10000000}));
  EXPECT_EQ(kernels["length"], json::array({1000000, 4000000, 2000000}));
  EXPECT_EQ(kernels["at"], json::array({0, 1, 3}));
  EXPECT_EQ(data["kinds"][size_t(kernels["kind"][0])], "starting transfers");
  EXPECT_EQ(data["kinds"][size_t(kernels["kind"][1])], "copy");
  EXPECT_EQ(program["transfers"][0][6], 10000000);
  EXPECT_EQ(program["medians"][0], json::array({10000000, 5000000}));
}

TEST(Prediction, IsAPageThatNoNameEnds) {
  SmallPlan small = samplePlan("</script><b>");
  std::string page =
      printPredictionPage(small.plan, simulate(small.plan, plainCluster()));
  EXPECT_THAT(page, Not(HasSubstr("</script><b>")));
  EXPECT_THAT(readPage(page)["strings"].get<std::vector<std::string>>(),
              testing::Contains("</script><b>"));
}

TEST(Prediction, IsTheSameEachTime) {
  SmallPlan small = samplePlan();
  Profile measured = sampleProfile(small);
  auto print = [&](auto *how) {
    Prediction prediction = simulate(small.plan, plainCluster());
    Fusion fusion =
        compareFusion(small.plan, prediction, small.plan, prediction);
    return how(small.plan, prediction, &measured, &fusion);
  };
  for (auto *how : {printPrediction, printPredictionJson, printPredictionPage})
    EXPECT_EQ(print(how), print(how));
  auto trace = [&] {
    return printPredictionTrace(
        small.plan, simulate(small.plan, plainCluster()), &measured);
  };
  EXPECT_EQ(trace(), trace());
}

} // namespace
