//===- LoopThreadsTest.cpp - Scheduling of gloo's threads -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/comm/gloo/LoopThreads.h"
#include "Harness.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

using namespace fsdp;

namespace {

int policyOfNewThread() {
  int policy = -1;
  std::thread([&] { policy = sched_getscheduler(0); }).join();
  return policy;
}

/// Threads of this process that are scheduled so.
int countThreads(int policy) {
  int count = 0;
  for (const auto &task :
       std::filesystem::directory_iterator("/proc/self/task"))
    count += sched_getscheduler(std::stoi(task.path().filename())) == policy;
  return count;
}

} // namespace

TEST(LoopThreads, TakeNoProcessorFromWhoRuns) {
  ASSERT_EQ(sched_getscheduler(0), SCHED_OTHER);
  {
    LoopThreads threads(allowedProcessors());
    EXPECT_EQ(policyOfNewThread(), SCHED_BATCH);
  }
  EXPECT_EQ(sched_getscheduler(0), SCHED_OTHER);
  EXPECT_EQ(policyOfNewThread(), SCHED_OTHER);
}

TEST(LoopThreads, LeaveAPolicyThatTheUserChose) {
  std::thread([] {
    sched_param none{};
    ASSERT_EQ(sched_setscheduler(0, SCHED_IDLE, &none), 0);
    {
      LoopThreads threads(allowedProcessors());
      EXPECT_EQ(policyOfNewThread(), SCHED_IDLE);
    }
    EXPECT_EQ(sched_getscheduler(0), SCHED_IDLE);
  }).join();
}

TEST(LoopThreads, AreThoseThatMoveMessagesOverGloo) {
  auto said = test::runRanks({"gloo", 2}, [](Fabric &fabric) {
    test::require(countThreads(SCHED_BATCH) == 0, "batch threads before");
    auto group = fabric.createCommunicator({"world", {0, 1}});
    test::require(countThreads(SCHED_BATCH) > 0, "the loop is none");
    test::require(sched_getscheduler(0) == SCHED_OTHER,
                  "the rank's own thread became one");
    // Who leaves at once may find the other still connecting.
    fabric.exchange("connected", "");
  });
  EXPECT_EQ(said, std::vector<std::string>(2));
}
