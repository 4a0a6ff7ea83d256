//===- TransientBytesTest.cpp - Memory in use over a program --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "simulate/TransientBytes.h"

#include "test/unit/simulate/SmallPlan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace fsdp;
using fsdp::test::SmallPlan;
using testing::ElementsAre;
using testing::IsEmpty;

namespace {

TEST(TransientBytes, LastFromTheFirstToTheLastUse) {
  SmallPlan small;
  uint32_t a = small.slot(100), b = small.slot(40, 128);
  small.make(a);
  small.make(b);
  small.use(a);
  small.use(b);
  small.kernel(1);
  EXPECT_THAT(getTransientBytes(small.program()),
              ElementsAre(100, 140, 140, 40, 0));
}

TEST(TransientBytes, LastAsLongAsTheirViews) {
  SmallPlan small;
  uint32_t a = small.slot(100);
  uint32_t view = small.view(a);
  small.make(a);
  small.kernel(1);
  small.use(view);
  small.kernel(1);
  EXPECT_THAT(getTransientBytes(small.program()),
              ElementsAre(100, 100, 100, 0));
}

TEST(TransientBytes, CountOnceWhatSharesMemory) {
  SmallPlan small;
  // The second overwrites the first, the third lies half in it.
  uint32_t a = small.slot(100), b = small.slot(100), c = small.slot(100, 48);
  small.make(a);
  small.make(b);
  small.make(c);
  small.use(a);
  small.use(b);
  small.use(c);
  EXPECT_THAT(getTransientBytes(small.program()),
              ElementsAre(100, 100, 148, 148, 148, 100));
}

TEST(TransientBytes, AreHeldByTransfersUntilTheWait) {
  SmallPlan small;
  uint32_t a = small.slot(100), onHost = small.slot(100);
  small.program().values[onHost]->memory = plan::MemorySpace::host;
  small.make(a);
  uint32_t future = small.download(a, onHost);
  small.kernel(1);
  small.wait(future);
  small.kernel(1);
  EXPECT_THAT(getTransientBytes(small.program()),
              ElementsAre(100, 100, 100, 100, 0));
}

TEST(TransientBytes, OfInputsAndOutputsStayToTheEnd) {
  SmallPlan small;
  uint32_t input = small.slot(100), output = small.slot(8, 128);
  auto bind = [](uint32_t value) {
    auto binding = std::make_unique<plan::BindingT>();
    binding->value = value;
    return binding;
  };
  small.program().arguments.push_back(bind(input));
  small.program().arguments.back()->input = 0;
  small.program().results.push_back(bind(output));
  small.kernel(1);
  small.make(output);
  small.kernel(1);
  EXPECT_THAT(getTransientBytes(small.program()), ElementsAre(100, 108, 108));
}

TEST(TransientBytes, AreNoneOfStatesAndEmptyPrograms) {
  SmallPlan small;
  EXPECT_THAT(getTransientBytes(small.program()), IsEmpty());
  small.kernel(1);
  EXPECT_THAT(getTransientBytes(small.program()), ElementsAre(0));
}

} // namespace
