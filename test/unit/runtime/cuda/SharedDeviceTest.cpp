//===- SharedDeviceTest.cpp - One thread issues for all -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/comm/one_device/SharedDevice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>

using namespace fsdp;
using namespace std::chrono_literals;
using testing::HasSubstr;

namespace {

/// Calls `body` on a thread for each rank; returns what each threw.
template <typename Body>
std::vector<std::string> onRanks(int count, Body body) {
  std::vector<std::string> outcomes(count);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < count; ++rank)
    threads.emplace_back([&, rank] {
      try {
        body(rank);
      } catch (const std::exception &error) {
        outcomes[rank] = error.what();
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  return outcomes;
}

TEST(SharedDevice, RankZerosThreadDoesAllRanksTasks) {
  SharedDevice device(3, 10s);
  std::vector<int> done(3);
  std::vector<std::thread::id> ids(3), leaders;
  auto outcomes = onRanks(3, [&](int rank) {
    ids[rank] = std::this_thread::get_id();
    for (int round = 0; round < 200; ++round) {
      int task = 100 * round + rank;
      device.together(rank, &task, [&](std::span<void *const> tasks) {
        leaders.push_back(std::this_thread::get_id());
        for (size_t i = 0; i < tasks.size(); ++i)
          done[i] += *static_cast<int *>(tasks[i]) ==
                     100 * round + static_cast<int>(i);
      });
      // What the task pointed to may go as soon as the call is over.
      task = -1;
    }
  });
  EXPECT_THAT(outcomes, testing::Each(""));
  EXPECT_THAT(done, testing::Each(200));
  EXPECT_THAT(leaders, testing::Each(ids[0]));
  EXPECT_EQ(leaders.size(), 200u);
}

TEST(SharedDevice, AFailureReachesAll) {
  SharedDevice device(3, 10s);
  auto outcomes = onRanks(3, [&](int rank) {
    device.together(rank, nullptr, [](std::span<void *const>) {
      throw std::runtime_error("the cause");
    });
  });
  EXPECT_EQ(outcomes[0], "the cause");
  for (int rank : {1, 2})
    EXPECT_THAT(outcomes[rank], HasSubstr("rank 0 failed"));
}

TEST(SharedDevice, ARankThatFailsElsewhereKeepsNobodyWaiting) {
  SharedDevice device(3, 10s);
  auto outcomes = onRanks(3, [&](int rank) {
    if (rank == 1)
      return device.fail("rank 1 failed: the cause");
    device.together(rank, nullptr, [](std::span<void *const>) {});
  });
  EXPECT_EQ(outcomes[1], "");
  for (int rank : {0, 2})
    EXPECT_THAT(outcomes[rank], HasSubstr("the cause"));
}

TEST(SharedDevice, ARankThatDoesNotComeIsNamedAtTheDeadline) {
  SharedDevice device(3, 50ms);
  auto outcomes = onRanks(3, [&](int rank) {
    if (rank != 2)
      device.together(rank, nullptr, [](std::span<void *const>) {});
  });
  for (int rank : {0, 1})
    EXPECT_THAT(outcomes[rank], HasSubstr("expected rank 2 to come"));
}

TEST(SharedDevice, OfOneRankNobodyWaits) {
  SharedDevice device(1, 10s);
  int calls = 0;
  device.together(0, &calls, [&](std::span<void *const> tasks) {
    ++*static_cast<int *>(tasks[0]);
  });
  EXPECT_EQ(calls, 1);
}

} // namespace
