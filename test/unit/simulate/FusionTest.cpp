//===- FusionTest.cpp - A step with and without own kernels ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "simulate/Fusion.h"

#include "simulate/PredictionText.h"
#include "test/unit/simulate/SmallPlan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace fsdp;
using fsdp::test::plainCluster;
using fsdp::test::SmallPlan;
using testing::HasSubstr;

namespace {

constexpr uint64_t kBytes = 1 << 20;

/// A state, copied `times` times one behind the other; the last copy leaves the
/// device.
SmallPlan copies(int times, bool leaves = true) {
  SmallPlan small;
  uint32_t value = small.state(kBytes);
  for (int i = 0; i < times; ++i) {
    uint32_t next = small.slot(kBytes, i * kBytes);
    small.copy(value, next);
    value = next;
  }
  if (leaves)
    small.wait(small.download(value, small.slot(kBytes)));
  return small;
}

Fusion compare(const SmallPlan &before, const SmallPlan &after) {
  return compareFusion(before.plan, simulate(before.plan, plainCluster()),
                       after.plan, simulate(after.plan, plainCluster()));
}

TEST(Fusion, CountsWhatMovesBesideTheLeastThereCanBe) {
  Fusion fusion = compare(copies(3), copies(1));
  EXPECT_EQ(fusion.before.calls, 3u);
  EXPECT_EQ(fusion.after.calls, 1u);
  EXPECT_EQ(fusion.before.bytes, 6.0 * kBytes);
  EXPECT_EQ(fusion.after.bytes, 2.0 * kBytes);
  // The state is read, and what leaves written.
  EXPECT_EQ(fusion.leastBytes, 2.0 * kBytes);
  // What nobody else reads need not be written.
  EXPECT_EQ(compare(copies(3, false), copies(1)).leastBytes, 1.0 * kBytes);
}

TEST(Fusion, ReadsWhatOthersMakeOnceAndWritesWhatStaysOnce) {
  SmallPlan small;
  small.wait(small.gather(1));
  uint32_t full =
      small.program().instructions[0]->body.AsTransfer()->outputs[0];
  auto bytes = double(small.program().values[full]->bytes);
  uint32_t copy = small.slot(uint64_t(bytes));
  small.copy(full, copy);
  small.copy(full, copy);
  small.use(small.view(copy)); // in a state
  EXPECT_EQ(compare(small, small).leastBytes, 2 * bytes);
}

TEST(Fusion, StandsBesideThePrediction) {
  SmallPlan before = copies(3), after = copies(1);
  Fusion fusion = compare(before, after);
  fusion.kernels = {{"aten::mul, aten::add", 2, 1e-3, 3.0 * kBytes}};
  Prediction prediction = simulate(after.plan, plainCluster());
  std::string text = printPrediction(after.plan, prediction, nullptr, &fusion);
  EXPECT_THAT(text,
              testing::ContainsRegex("what these move +6.0 MiB +2.0 MiB"));
  EXPECT_THAT(text, testing::ContainsRegex("the least they could +2.0 MiB"));
  EXPECT_THAT(
      text, testing::ContainsRegex("aten::mul, aten::add +2 +1.000 +3.0 MiB"));
  EXPECT_THAT(printPredictionJson(after.plan, prediction, nullptr, &fusion),
              HasSubstr("\"least_bytes\": 2097152.0"));
  EXPECT_THAT(printPredictionPage(after.plan, prediction, nullptr, &fusion),
              HasSubstr("\"fusion\":{\"without\":{"));
  EXPECT_THAT(printPrediction(after.plan, prediction),
              testing::Not(HasSubstr("kernels of our own")));
}

} // namespace
