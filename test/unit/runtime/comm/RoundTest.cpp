//===- RoundTest.cpp - Starts of a run that share one store ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/comm/processes/Round.h"
#include "support/Error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include <functional>
#include <thread>

using namespace fsdp;
using namespace std::chrono_literals;
using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::Ne;
using testing::StartsWith;

namespace {

class Round : public testing::Test {
protected:
  /// What each rank of `world` gets, a round's name or an error; rank r comes
  /// after delays[r].
  std::vector<std::string> start(int world,
                                 std::vector<std::chrono::milliseconds> delays,
                                 std::vector<int> absent = {},
                                 std::chrono::milliseconds deadline = 60s) {
    delays.resize(world, 0ms);
    std::vector<std::string> rounds(world);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < world; ++rank)
      if (!std::ranges::count(absent, rank))
        threads.emplace_back([&, rank] {
          std::this_thread::sleep_for(delays[rank]);
          Store own(base, "fsdp/", /*servedHere=*/false);
          try {
            rounds[rank] = agreeOnRound(own, rank, world, deadline);
          } catch (const Error &error) {
            EXPECT_EQ(error.id(), ErrorId::RankMissing);
            rounds[rank] = error.what();
          }
        });
    for (std::thread &thread : threads)
      thread.join();
    return rounds;
  }

  c10::intrusive_ptr<c10d::Store> base = c10::make_intrusive<c10d::HashStore>();
};

TEST_F(Round, IsTheSameForAll) {
  for (int world : {1, 2, 5}) {
    auto rounds = start(world, {});
    EXPECT_NE(rounds[0], "");
    EXPECT_THAT(rounds, Each(rounds[0]));
  }
}

TEST_F(Round, IsNotThatOfAnEarlierStart) {
  std::vector<std::string> seen;
  // Rank 0 comes before the others, so that it finds those of the start before,
  // among them, or last.
  for (auto delays : std::vector<std::vector<std::chrono::milliseconds>>{
           {},
           {0ms, 500ms, 500ms, 500ms},
           {300ms, 0ms, 300ms, 600ms},
           {500ms, 0ms, 0ms, 0ms}}) {
    auto rounds = start(4, delays);
    EXPECT_THAT(rounds, Each(rounds[0]));
    EXPECT_THAT(seen, Each(Ne(rounds[0])));
    seen.push_back(rounds[0]);
  }
}

TEST_F(Round, NamesWhoDoesNotCome) {
  for (int missing : {0, 2}) {
    auto rounds = start(3, {}, {missing}, 1s);
    for (int rank = 0; rank < 3; ++rank)
      if (rank != missing) {
        EXPECT_THAT(rounds[rank],
                    AllOf(StartsWith("rank " + std::to_string(rank) +
                                     ": joining the run"),
                          HasSubstr("expected rank " + std::to_string(missing) +
                                    " to come within 1 s")));
      }
    base = c10::make_intrusive<c10d::HashStore>();
  }
}

TEST_F(Round, NamesWhoDoesNotComeAgain) {
  start(3, {});
  auto rounds = start(3, {}, {2}, 1s);
  for (int rank : {0, 1})
    EXPECT_THAT(rounds[rank], HasSubstr("expected rank 2 to come within 1 s"));
  rounds = start(3, {}, {0}, 1s);
  for (int rank : {1, 2})
    EXPECT_THAT(rounds[rank], HasSubstr("expected rank 0 to come within 1 s"));
  // The next start is none the worse for it.
  rounds = start(3, {});
  EXPECT_THAT(rounds, Each(rounds[0]));
}

} // namespace
