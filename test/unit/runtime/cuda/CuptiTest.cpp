//===- CuptiTest.cpp - A GPU's activities, without a GPU ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "FakeCupti.h"
#include "support/Error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <thread>

using namespace fsdp;
using namespace fsdp::test;
using testing::HasSubstr;

namespace {

constexpr CUpti_ActivityKind kKernel = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;

class CuptiTest : public testing::Test {
protected:
  FakeCupti cupti;
  std::function<void()> onDrain = [] {};
  std::unique_ptr<DeviceActivities> activities =
      makeCuptiActivities(cupti.functions(), [this] { onDrain(); });

  /// By their begin.
  std::map<int64_t, DeviceActivity> list() {
    std::map<int64_t, DeviceActivity> found;
    listing = activities->list();
    for (const DeviceActivity &each : listing.activities)
      found[each.begin] = each;
    EXPECT_EQ(found.size(), listing.activities.size());
    return found;
  }
  std::string errorOf(const std::function<void()> &body) {
    try {
      body();
    } catch (const Error &error) {
      return error.what();
    }
    return "none";
  }
  DeviceListing listing;
};

TEST_F(CuptiTest, WorkBearsTheMarkOfItsCall) {
  activities->begin();
  activities->enter(7);
  cupti.launch(kKernel, 10, 100, 110);
  activities->enter(8);
  cupti.launch(CUPTI_ACTIVITY_KIND_MEMCPY, 20, 120, 130);
  activities->leave();
  cupti.launch(CUPTI_ACTIVITY_KIND_MEMSET, 30, 140, 150);
  cupti.launch(CUPTI_ACTIVITY_KIND_MEMCPY2, 40, 160, 170, /*byDriver=*/true);
  activities->leave();
  cupti.launch(kKernel, 50, 180, 190);
  auto found = list();
  ASSERT_EQ(found.size(), 5u);
  EXPECT_EQ(found[100].mark, 7u);
  EXPECT_EQ(found[120].mark, 8u);
  EXPECT_EQ(found[140].mark, 7u);
  EXPECT_EQ(found[160].mark, 7u);
  EXPECT_EQ(found[160].end, 170);
  EXPECT_TRUE(found[160].isMarked);
  EXPECT_FALSE(found[180].isMarked);
  EXPECT_EQ(found[180].asked, 50) << "when its call was, is known even so";
  EXPECT_EQ(listing.lost, 0u);
  activities->end();
}

/// Marks are each thread's own: NCCL's threads have none.
TEST_F(CuptiTest, OtherThreadsWorkIsNotMarked) {
  activities->begin();
  activities->enter(7);
  std::thread([&] { cupti.launch(kKernel, 10, 100, 110, true); }).join();
  activities->leave();
  auto found = list();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_FALSE(found[100].isMarked);
  EXPECT_EQ(found[100].asked, 10);
  activities->end();
}

TEST_F(CuptiTest, WorkThatIsStillUnderWayIsWaitedFor) {
  activities->begin();
  activities->enter(7);
  uint32_t call = cupti.launch(kKernel, 10, 100, /*end=*/0);
  activities->leave();
  onDrain = [&] { cupti.complete(call, 100, 200); };
  auto found = list();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[100].end, 200);
  EXPECT_EQ(found[100].mark, 7u);
  EXPECT_EQ(listing.lost, 0u);
  activities->end();
}

TEST_F(CuptiTest, WhatIsDroppedOrHasNoTimesIsCounted) {
  activities->begin();
  cupti.launch(kKernel, 10, 100, 110);
  cupti.launch(kKernel, 20, 0, 0);
  cupti.dropped = 5;
  auto found = list();
  EXPECT_EQ(found.size(), 1u);
  EXPECT_EQ(listing.lost, 6u);
  activities->end();
  activities->begin();
  EXPECT_EQ(activities->list().lost, 0u) << "of the profile before";
  activities->end();
}

/// One that never ends, whatever is waited for.
TEST_F(CuptiTest, RecordsThatAreNotCompleteAreCounted) {
  activities->begin();
  cupti.launch(kKernel, 10, 100, /*end=*/0);
  list();
  EXPECT_GE(listing.lost, 1u);
  activities->end();
}

/// Ranks that are threads begin, list and end each for itself.
TEST_F(CuptiTest, RanksOfAProcessAreListedTogether) {
  activities->begin();
  activities->begin();
  cupti.launch(kKernel, 10, 100, 110);
  EXPECT_EQ(list().size(), 1u);
  activities->end();
  EXPECT_EQ(list().size(), 1u) << "for the second one";
  activities->end();
  EXPECT_FALSE(cupti.isListing());
  activities->begin();
  EXPECT_TRUE(list().empty());
  activities->end();
}

TEST_F(CuptiTest, NothingIsListedOutsideOfAProfile) {
  cupti.launch(kKernel, 10, 100, 110);
  activities->begin();
  EXPECT_TRUE(cupti.isListing());
  activities->list();
  EXPECT_FALSE(cupti.isListing());
  cupti.launch(kKernel, 20, 200, 210);
  EXPECT_TRUE(list().empty());
  activities->end();
}

TEST_F(CuptiTest, AnotherProfilerIsNamed) {
  cupti.enabling = CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  std::string error = errorOf([&] { activities->begin(); });
  EXPECT_THAT(error, HasSubstr("cuptiActivityEnable failed: made up"));
  EXPECT_THAT(error, HasSubstr("another profiler"));
  cupti.enabling = CUPTI_SUCCESS;
  activities->begin();
  activities->end();
}

TEST_F(CuptiTest, AnOlderCuptiIsRefused) {
  cupti.version = CUPTI_API_VERSION - 1;
  EXPECT_THAT(errorOf([&] { activities->begin(); }),
              HasSubstr("expected CUPTI of API version"));
}

TEST_F(CuptiTest, TwoListingsAtATimeAreRefused) {
  auto other = makeCuptiActivities(cupti.functions(), [] {});
  activities->begin();
  EXPECT_THAT(errorOf([&] { other->begin(); }), HasSubstr("found another one"));
  activities->end();
  other->begin();
  other->end();
}

/// That of LibTorch's wheels has all functions, and the records are its own.
TEST(CuptiLibraryTest, IsThatWhichLibTorchBrings) {
  uint32_t version = 0;
  ASSERT_EQ(loadCupti().GetVersion(&version), CUPTI_SUCCESS);
  EXPECT_GE(version, uint32_t(CUPTI_API_VERSION));
}

} // namespace
