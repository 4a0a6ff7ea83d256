//===- ScheduleTest.cpp - Learning rates over time ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/Schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>

using namespace fsdp;
using testing::HasSubstr;

namespace {
std::string refusal(const std::string &text) {
  try {
    parseSchedule(text, 1e-3);
  } catch (const std::invalid_argument &error) {
    return error.what();
  }
  return "";
}

TEST(Schedule, HasTheFactorsOfTransformers) {
  auto factor = [](const char *text, uint64_t step, uint64_t steps = 0) {
    return RateSchedule(parseSchedule(text, 1e-3), 1e-3, steps).getFactor(step);
  };
  EXPECT_EQ(factor("constant", 1000), 1);
  EXPECT_EQ(factor("constant_with_warmup:warmup=4", 1), 0.25);
  EXPECT_EQ(factor("constant_with_warmup:warmup=4", 4), 1);
  EXPECT_EQ(factor("linear:warmup=2,total=10", 0), 0);
  EXPECT_EQ(factor("linear:warmup=2,total=10", 1), 0.5);
  EXPECT_EQ(factor("linear:warmup=2,total=10", 2), 1);
  EXPECT_EQ(factor("linear:warmup=2,total=10", 4), 0.75);
  EXPECT_EQ(factor("linear:total=10,min=5e-4", 5), 0.75);
  EXPECT_DOUBLE_EQ(factor("cosine:total=4", 1),
                   (1 + std::cos(std::acos(-1.0) / 4)) / 2);
  EXPECT_DOUBLE_EQ(factor("cosine_with_min_lr:total=4,min=5e-4", 2), 0.75);
  // The run's steps, where no total is given; a ratio is rounded up.
  EXPECT_EQ(factor("linear", 5, 10), 0.5);
  EXPECT_EQ(factor("linear:warmup_ratio=0.15", 1, 10), 0.5);
}

TEST(Schedule, HasNumbersOfItsOwn) {
  auto factor = [](const char *text, uint64_t step) {
    return RateSchedule(parseSchedule(text, 1e-3), 1e-3, 0).getFactor(step);
  };
  // Grows from the least rate, stays, and goes down to it.
  const char *stable = "warmup_stable_decay:warmup=2,total=10,num_decay_steps=4"
                       ",decay_type=linear,min_ratio=0.2";
  EXPECT_DOUBLE_EQ(factor(stable, 0), 0.2);
  EXPECT_DOUBLE_EQ(factor(stable, 1), 0.6);
  EXPECT_EQ(factor(stable, 6), 1);
  EXPECT_DOUBLE_EQ(factor(stable, 8), 0.6);
  EXPECT_DOUBLE_EQ(factor(stable, 10), 0.2);
  EXPECT_DOUBLE_EQ(factor("polynomial:total=4,power=2,min=0", 2), 0.25);
  EXPECT_DOUBLE_EQ(factor("polynomial:total=4", 4), 1e-4);
  EXPECT_DOUBLE_EQ(factor("inverse_sqrt:warmup=4", 16), 0.5);
  EXPECT_DOUBLE_EQ(factor("cosine_with_restarts:total=8,num_cycles=2", 4), 1);
  EXPECT_EQ(factor("cosine_with_restarts:total=8,num_cycles=2", 8), 0);
  EXPECT_DOUBLE_EQ(factor("rex:total=2", 0), 0.5 / 0.55);
  EXPECT_EQ(factor("linear_warmup_stable_decay:warmup=2,total=4", 1), 1);
}

TEST(Schedule, StaysAtItsEnd) {
  for (const char *text : {"cosine:total=4,min=1e-4", "linear:total=4,min=1e-4",
                           "linear:warmup=4,total=4,min=1e-4"}) {
    RateSchedule schedule(parseSchedule(text, 1e-3), 1e-3, 0);
    EXPECT_DOUBLE_EQ(schedule.getFactor(5), 0.1) << text;
    EXPECT_DOUBLE_EQ(schedule.getFactor(1000000), 0.1) << text;
  }
}

TEST(Schedule, IsKnownByItsKindAlone) {
  plan::ScheduleT warming = parseSchedule("constant_with_warmup:warmup=4", 1);
  EXPECT_EQ(checkSchedule("", warming, 1), std::nullopt);
  EXPECT_THAT(checkSchedule("constant", warming, 1).value_or(""),
              HasSubstr("constant_with_warmup"));
}

TEST(Schedule, RefusesWhatMakesNoSense) {
  EXPECT_THAT(refusal("cosin"), HasSubstr("did you mean 'cosine'?"));
  EXPECT_THAT(refusal(""), HasSubstr("expected one of constant, "));
  EXPECT_THAT(refusal("linear:warm=3"), HasSubstr("expected one of warmup, "));
  EXPECT_THAT(refusal("linear:warmup=1.5"), HasSubstr("a number of steps"));
  EXPECT_THAT(refusal("linear:warmup=-1"), HasSubstr("a number of steps"));
  EXPECT_THAT(refusal("linear:warmup=nan"), HasSubstr("a number of steps"));
  EXPECT_THAT(refusal("linear:min=nan"), HasSubstr("from 0, found nan"));
  EXPECT_THAT(refusal("linear:total"), HasSubstr("found ''"));
  EXPECT_THAT(refusal("linear:warmup=5,total=4"), HasSubstr("does not fit"));
  EXPECT_THAT(refusal("linear:warmup_ratio=2"), HasSubstr("from 0 to 1"));
  EXPECT_THAT(refusal("cosine:power=1"),
              HasSubstr("power has no meaning for cosine"));
  EXPECT_THAT(refusal("polynomial:power=-1"),
              HasSubstr("a number from 0 for 'power', found '-1'"));
  EXPECT_THAT(refusal("warmup_stable_decay:num_decay_steps=2,decay_type=up"),
              HasSubstr("`1-sqrt` for 'decay_type', found 'up'"));
  EXPECT_THAT(refusal("warmup_stable_decay"),
              HasSubstr("needs num_decay_steps"));
  EXPECT_THAT(refusal("warmup_stable_decay:total=4,warmup=2,num_decay_steps=3"),
              HasSubstr("do not fit into the total of 4"));
  EXPECT_THAT(refusal("cosine:min=1e-4,min_ratio=0.1"), HasSubstr("twice"));
  EXPECT_THAT(refusal("inverse_sqrt:min=1e-4"), HasSubstr("no meaning"));
  EXPECT_THAT(refusal("reduce_lr_on_plateau"),
              HasSubstr("'reduce_lr_on_plateau' cannot be had: its rate"));
  EXPECT_THAT(refusal("linear:min=1"), HasSubstr("is above the rate"));
  EXPECT_THAT(refusal("constant:warmup=1"), HasSubstr("constant_with_warmup"));
  EXPECT_THAT(refusal("constant:min=1e-4"), HasSubstr("no meaning"));
  EXPECT_THROW(RateSchedule(parseSchedule("linear", 1), 1, 0),
               std::invalid_argument);
}
} // namespace
