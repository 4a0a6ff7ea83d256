//===- ProfileTest.cpp - What was measured of a plan ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "simulate/Profile.h"

#include "plan/Activities.h"
#include "support/Error.h"
#include "test/unit/simulate/SmallPlan.h"
#include "test/unit/simulate/SmallProfile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace fsdp;
using fsdp::test::SmallPlan;
using fsdp::test::SmallProfile;
using testing::HasSubstr;

namespace {

constexpr double kTiny = 1e-9;

/// A gather over a kernel, and one kernel more.
SmallPlan samplePlan() {
  SmallPlan small;
  uint32_t gather = small.gather(3, "layers.0");
  small.kernel(1);
  small.wait(gather);
  small.kernel(1);
  return small;
}

std::string refusal(const std::string &text, const plan::PlanT &plan) {
  try {
    Profile::parse(text, "trace.json", plan);
  } catch (const Error &error) {
    return error.format();
  }
  return "";
}

TEST(Profile, HasTimesByInstruction) {
  SmallPlan small = samplePlan();
  SmallProfile written(small.plan);
  // Milliseconds of start, kernel, wait and kernel.
  written.add(0, 3, 100, {1, 2, 3, 4});
  Profile profile = Profile::parse(written.text(), "trace.json", small.plan);
  EXPECT_EQ(profile.ranks, 1u);
  EXPECT_EQ(profile.steps, 1u);
  EXPECT_NEAR(profile.seconds, 10e-3, kTiny);
  const ProfiledProgram *program = profile.findProgram(0);
  ASSERT_NE(program, nullptr);
  EXPECT_EQ(program->runs, 1u);
  EXPECT_EQ(program->step, 3);
  EXPECT_NEAR(program->seconds, 10e-3, kTiny);
  ASSERT_EQ(program->kernels.size(), 2u);
  const ProfiledKernel *kernel = program->findKernel(3);
  ASSERT_NE(kernel, nullptr);
  EXPECT_NEAR(kernel->seconds, 4e-3, kTiny);
  EXPECT_NEAR(kernel->begin, 6e-3, kTiny);
  EXPECT_NEAR(kernel->end, 10e-3, kTiny);
  EXPECT_EQ(program->findKernel(0), nullptr);
  ASSERT_EQ(program->transfers.size(), 1u);
  const ProfiledTransfer *transfer = program->findTransfer(0);
  ASSERT_NE(transfer, nullptr);
  EXPECT_EQ(transfer->wait, 2u);
  EXPECT_NEAR(transfer->starting, 1e-3, kTiny);
  EXPECT_NEAR(transfer->flight, 6e-3, kTiny);
  EXPECT_NEAR(transfer->exposed, 3e-3, kTiny);
  EXPECT_NEAR(transfer->begin, 0, kTiny);
  EXPECT_NEAR(transfer->asked, 3e-3, kTiny);
  EXPECT_NEAR(transfer->end, 6e-3, kTiny);
}

TEST(Profile, HasMediansOverRanksAndStepsAndShowsTheMiddleRun) {
  SmallPlan small = samplePlan();
  SmallProfile written(small.plan);
  written.add(0, 3, 0, {1, 1, 1, 1});
  written.add(0, 4, 50, {1, 9, 1, 9});
  written.add(1, 3, 0, {1, 2, 1, 3});
  Profile profile = Profile::parse(written.text(), "trace.json", small.plan);
  EXPECT_EQ(profile.ranks, 2u);
  EXPECT_EQ(profile.steps, 2u);
  const ProfiledProgram &program = *profile.findProgram(0);
  EXPECT_EQ(program.runs, 3u);
  EXPECT_EQ(program.rank, 1u);
  EXPECT_EQ(program.step, 3);
  EXPECT_NEAR(program.seconds, 7e-3, kTiny);
  EXPECT_NEAR(program.findKernel(1)->seconds, 2e-3, kTiny);
  EXPECT_NEAR(program.findKernel(3)->seconds, 3e-3, kTiny);
  EXPECT_NEAR(program.findTransfer(0)->flight, 4e-3, kTiny);
}

TEST(Profile, IsRefusedIfItIsOfAnotherArtifact) {
  SmallPlan small = samplePlan(), other;
  other.kernel(1);
  other.kernel(1);
  SmallProfile written(other.plan);
  written.add(0, 0, 0, {1, 1});
  EXPECT_THAT(refusal(written.text(), small.plan),
              HasSubstr("expected instruction 0 of 'train/step' to be "
                        "'all_gather.start layers.0', found 'copy'"));
  other.program().name = "train/other";
  SmallProfile renamed(other.plan);
  renamed.add(0, 0, 0, {1, 1});
  EXPECT_THAT(refusal(renamed.text(), small.plan),
              HasSubstr("expected programs of the artifact, found "
                        "'train/other'"));
}

TEST(Profile, IsRefusedIfItIsOfAnotherDevice) {
  SmallPlan small = samplePlan(), host = samplePlan();
  host.plan.training->device = "cpu";
  SmallProfile onGpu(small.plan), onHost(host.plan);
  onGpu.add(0, 0, 0, {1, 1, 1, 1});
  onHost.add(0, 0, 0, {1, 1, 1, 1});
  EXPECT_THAT(refusal(onHost.text(), small.plan),
              HasSubstr("expected a run on device 'cuda:sm_90', found one on "
                        "'cpu'"));
  EXPECT_THAT(refusal(onGpu.text(), host.plan),
              HasSubstr("expected a run on device 'cpu', found one on "
                        "'cuda:sm_90'"));
}

/// Between the kernels of one instruction a GPU may have nothing to do.
TEST(Profile, OfAGpusKernelsTheTimeCountsInWhichTheyRan) {
  SmallPlan small = samplePlan();
  SmallProfile written(small.plan);
  written.add(0, 0, 0, {1, 5, 1, 1});
  nlohmann::json trace = nlohmann::json::parse(written.text());
  for (auto &event : trace["traceEvents"])
    if (event.value("cat", "") == "compute" &&
        event["args"]["instruction"] == 1)
      event["args"]["busy_us"] = 3000;
  Profile profile = Profile::parse(trace.dump(), "p.json", small.plan);
  const ProfiledKernel *kernel = profile.programs.at(0).findKernel(1);
  ASSERT_NE(kernel, nullptr);
  EXPECT_NEAR(kernel->seconds, 3e-3, kTiny);
  EXPECT_NEAR(kernel->end - kernel->begin, 5e-3, kTiny) << "as it is shown";
}

TEST(Profile, IsRefusedIfItIsNone) {
  SmallPlan small = samplePlan();
  EXPECT_THAT(refusal("no json", small.plan), HasSubstr("fsdp-run --profile"));
  EXPECT_THAT(refusal("", small.plan), HasSubstr("E054"));
  for (const char *none : {"{}", "[]", R"({"traceEvents": []})"})
    EXPECT_THAT(refusal(none, small.plan), HasSubstr("found none")) << none;
  EXPECT_THAT(refusal(R"({"traceEvents": [{"ph": "X", "cat": "compute"}]})",
                      small.plan),
              HasSubstr("'ts'"));
  std::string deep(1000, '[');
  EXPECT_THAT(refusal(deep, small.plan), HasSubstr("E014"));
}

TEST(Profile, IsRefusedIfTimeGoesBackwards) {
  SmallPlan small = samplePlan();
  SmallProfile written(small.plan);
  written.add(0, 0, 0, {1, 1, -1, 1});
  EXPECT_THAT(refusal(written.text(), small.plan), HasSubstr("go backwards"));
}

} // namespace
