//===- ThreadsTest.cpp - How many threads a rank has, and where -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/launch/Threads.h"
#include "support/Error.h"
#include "test/unit/runtime/TemporaryFolder.h"
#include "test/unit/runtime/TinyModel.h"

#include <ATen/Parallel.h>
#include <ATen/ops/add.h>
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include <sys/syscall.h>
#include <unistd.h>

using namespace fsdp;
using namespace fsdp::test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

namespace {

/// Two sockets, whose processors alternate, as the kernel often counts them:
/// `count` processors, of which the second half are the second hardware threads
/// of the first half's cores.
RankRoom twoSockets(int count, int asked = 0, const std::string &host = "a") {
  RankRoom room{host, {}, asked};
  for (int i = 0; i < count; ++i)
    room.processors.push_back({i, i % 2, i % (count / 2)});
  return room;
}

std::vector<int> counts(const std::vector<RankThreads> &threads) {
  std::vector<int> result;
  for (const RankThreads &each : threads)
    result.push_back(each.count);
  return result;
}

TEST(AssignThreadsTest, RanksOfAHostDivideItsProcessors) {
  std::vector<RankRoom> ranks(3, twoSockets(16));
  EXPECT_THAT(counts(assignThreads(ranks, Pin::none)), ElementsAre(5, 5, 5));
  EXPECT_THAT(counts(assignThreads(ranks, Pin::cores)), ElementsAre(2, 2, 2));
  ranks[2].host = "b";
  EXPECT_THAT(counts(assignThreads(ranks, Pin::none)), ElementsAre(8, 8, 16));
  std::vector<RankRoom> many(40, twoSockets(16));
  EXPECT_THAT(counts(assignThreads(many, Pin::none)),
              testing::Each(testing::Eq(1)));
}

/// A launcher that binds processes gave each its share already.
TEST(AssignThreadsTest, RanksWithProcessorsOfTheirOwnShareNothing) {
  RankRoom first{"a", {{0, 0, 0}, {1, 0, 1}}}, second{"a", {{2, 0, 2}}};
  std::vector<RankRoom> ranks{first, second};
  EXPECT_THAT(counts(assignThreads(ranks, Pin::none)), ElementsAre(2, 1));
  std::vector<RankThreads> pinned = assignThreads(ranks, Pin::cores);
  EXPECT_THAT(pinned[0].processors, ElementsAre(0, 1));
  EXPECT_THAT(pinned[1].processors, ElementsAre(2));
}

TEST(AssignThreadsTest, PinnedRanksShareNoCoreAndStayOnTheirSocket) {
  std::vector<RankRoom> ranks(2, twoSockets(16, /*asked=*/4));
  std::vector<RankThreads> threads = assignThreads(ranks, Pin::cores);
  // Whole cores: both hardware threads of each.
  EXPECT_THAT(threads[0].processors, ElementsAre(0, 2, 4, 6, 8, 10, 12, 14));
  EXPECT_THAT(threads[1].processors, ElementsAre(1, 3, 5, 7, 9, 11, 13, 15));
  threads = assignThreads(ranks, Pin::threads);
  EXPECT_THAT(threads[0].processors, ElementsAre(0, 2, 4, 6));
  EXPECT_THAT(threads[1].processors, ElementsAre(8, 10, 12, 14));
  EXPECT_THAT(assignThreads(ranks, Pin::none)[0].processors, IsEmpty());
}

TEST(AssignThreadsTest, PinningRefusesTooManyThreadsWithTheNumbers) {
  std::vector<RankRoom> ranks(3, twoSockets(16, /*asked=*/4));
  EXPECT_EQ(assignThreads(ranks, Pin::threads).size(), 3u);
  try {
    assignThreads(ranks, Pin::cores);
    FAIL() << "twelve threads were pinned to eight cores";
  } catch (const Error &error) {
    EXPECT_EQ(error.id(), ErrorId::BadUsage);
    EXPECT_THAT(error.what(), HasSubstr("--pin=cores"));
    EXPECT_THAT(error.what(), HasSubstr("12 cores"));
    EXPECT_THAT(error.what(), HasSubstr("3 ranks"));
    EXPECT_THAT(error.what(), HasSubstr("found 8 cores"));
    EXPECT_THAT(error.what(), HasSubstr("--threads=2"));
  }
}

TEST(RangesTest, AreShortAndComeBack) {
  std::vector<Processor> processors;
  for (int number : {0, 1, 2, 16, 18, 19})
    processors.push_back({number, 0, 0});
  EXPECT_EQ(printRanges(processors), "0-2,16-16,18-19");
  EXPECT_THAT(parseRanges("0-2,16-16,18-19"), ElementsAre(0, 1, 2, 16, 18, 19));
  EXPECT_EQ(printRanges({}), "");
  EXPECT_THAT(parseRanges(""), IsEmpty());
}

TEST(OversubscriptionTest, WarnsOnceAndNamesTheNumbers) {
  std::vector<RankRoom> ranks(4, twoSockets(16, /*asked=*/8));
  ranks[0].host = "b";
  std::vector<RankThreads> threads = assignThreads(ranks, Pin::none);
  EXPECT_EQ(describeOversubscription(ranks, threads, 0), std::nullopt);
  std::optional<std::string> warning =
      describeOversubscription(ranks, threads, 1);
  ASSERT_TRUE(warning);
  EXPECT_THAT(*warning, HasSubstr("3 ranks with 24 threads"));
  EXPECT_THAT(*warning, HasSubstr("16 processors"));
  EXPECT_THAT(*warning, HasSubstr("--threads=5"));
  EXPECT_EQ(describeOversubscription(ranks, threads, 2), std::nullopt);
  EXPECT_EQ(describeOversubscription(ranks, threads, 3), std::nullopt);
}

TEST(OversubscriptionTest, IsNotWhatNobodyCouldAvoid) {
  std::vector<RankRoom> ranks(20, twoSockets(16));
  EXPECT_EQ(describeOversubscription(ranks, assignThreads(ranks, Pin::none), 0),
            std::nullopt);
  std::vector<RankRoom> few(2, twoSockets(16));
  EXPECT_EQ(describeOversubscription(few, assignThreads(few, Pin::none), 0),
            std::nullopt);
}

//===----------------------------------------------------------------------===//
// On this machine
//===----------------------------------------------------------------------===//

std::vector<int> processorsOf(pid_t thread) {
  cpu_set_t set;
  std::vector<int> numbers;
  if (sched_getaffinity(thread, sizeof(set), &set) == 0)
    for (int i = 0; i < CPU_SETSIZE; ++i)
      if (CPU_ISSET(i, &set))
        numbers.push_back(i);
  return numbers;
}

std::set<pid_t> threadsOfProcess() {
  std::set<pid_t> threads;
  for (const auto &entry :
       std::filesystem::directory_iterator("/proc/self/task"))
    threads.insert(std::stoi(entry.path().filename().string()));
  return threads;
}

TEST(DefaultThreadsTest, RanksOfOneProcessDivideItsProcessors) {
  // As nobody asked; what is there is for the other tests.
  const char *text = std::getenv("OMP_NUM_THREADS");
  std::string before = text ? text : "";
  unsetenv("OMP_NUM_THREADS");
  int processors = static_cast<int>(findRoom(0).processors.size());
  for (int world : {1, 2, 3}) {
    TinyModel model;
    model.worldSize = world;
    TemporaryFolder folder;
    LaunchOptions options = model.writeForThreads(folder.path());
    options.threads = 0;
    std::mutex mutex;
    std::vector<int> found;
    launch(options, [&](Session &session) {
      session.step();
      std::lock_guard lock(mutex);
      found.push_back(at::get_num_threads());
    });
    EXPECT_THAT(found, testing::SizeIs(world));
    EXPECT_THAT(found, testing::Each(std::max(1, processors / world)));
  }
  if (text)
    setenv("OMP_NUM_THREADS", before.c_str(), 1);
}

TEST(PinTest, RanksAndTheThreadsThatTheyCreateStayOnCoresOfTheirOwn) {
  std::set<int> cores;
  for (const Processor &processor : findRoom(0).processors)
    cores.insert(processor.core);
  if (cores.size() < 2)
    GTEST_SKIP() << "two ranks need two cores";
  TinyModel model;
  model.worldSize = 2;
  TemporaryFolder folder;
  LaunchOptions options = model.writeForThreads(folder.path());
  options.pin = Pin::cores;
  std::mutex mutex;
  std::map<int, std::vector<int>> own, workers;
  // On a thread of its own, which has no OpenMP threads yet.
  std::thread([&] {
    std::vector<int> before = processorsOf(0);
    launch(options, [&](Session &session) {
      session.step();
      std::lock_guard lock(mutex);
      own[session.rank()] = processorsOf(0);
      std::set<pid_t> old = threadsOfProcess();
      at::set_num_threads(2);
      at::Tensor large = at::ones({1 << 20});
      EXPECT_EQ(at::add(large, large).sum().item<float>(), 2 << 20);
      for (pid_t thread : threadsOfProcess())
        if (!old.contains(thread))
          workers[session.rank()] = processorsOf(thread);
    });
    EXPECT_EQ(processorsOf(0), before) << "the caller's thread is given back";
  }).join();
  ASSERT_EQ(own.size(), 2u);
  for (int rank : {0, 1}) {
    EXPECT_FALSE(own[rank].empty());
    EXPECT_EQ(own[rank], workers[rank]) << "of rank " << rank;
  }
  for (int processor : own[0])
    EXPECT_THAT(own[1], testing::Not(testing::Contains(processor)));
}

} // namespace
