//===- FailureTest.cpp - What happens when a rank fails -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Harness.h"

#include "runtime/comm/gloo/Gloo.h"
#include "runtime/comm/processes/Rendezvous.h"
#include "runtime/comm/processes/Store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <cerrno>
#include <csignal>
#include <thread>
#include <unistd.h>

using namespace fsdp;
using namespace fsdp::test;
using namespace std::chrono_literals;
using namespace std::string_literals;
using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;
using testing::StartsWith;
using Clock = std::chrono::steady_clock;

namespace {

std::unique_ptr<Communicator> connectWorld(Fabric &fabric) {
  GroupRanks group{"world", {}};
  for (int rank = 0; rank < fabric.worldSize(); ++rank)
    group.ranks.push_back(rank);
  return fabric.createCommunicator(group);
}

/// Large enough not to fit into the sockets' buffers.
constexpr size_t kShardBytes = size_t(8) << 20;

struct Buffers {
  explicit Buffers(int ranks) : shard(kShardBytes), full(kShardBytes * ranks) {}
  std::vector<char> shard, full;

  Communicator::Ticket start(Communicator &group, uint64_t step) {
    Member member{shard.data(), full.data(), kShardBytes};
    return group.start(
        {{CollectiveKind::all_gather, "layers.3", step}, {&member, 1}});
  }
};

const auto kNamesTransfer =
    AllOf(HasSubstr("all_gather of bucket 'layers.3' in step 7"));

class Failure : public testing::TestWithParam<RankSetup> {};

TEST_P(Failure, LateRankIsNamedAtTheDeadline) {
  RankSetup setup = GetParam();
  setup.deadline = 3s; // also to connect, on a busy machine
  auto outcomes = runRanks(setup, [](Fabric &fabric) {
    Buffers buffers(fabric.worldSize());
    auto group = connectWorld(fabric);
    auto begin = Clock::now();
    if (fabric.rank() == 1)
      std::this_thread::sleep_for(6s);
    try {
      group->wait(buffers.start(*group, 7));
    } catch (const Error &) {
      if (fabric.rank() != 1)
        require(Clock::now() - begin < 5800ms, "the error came late");
      throw;
    }
  });
  for (int rank = 0; rank < setup.worldSize; ++rank)
    EXPECT_THAT(outcomes[rank],
                AllOf(AnyOf(StartsWith("E090"), StartsWith("E091")),
                      kNamesTransfer, HasSubstr("expected rank 1 to"),
                      HasSubstr("within 3 s")))
        << "rank " << rank;
}

TEST_P(Failure, AbortReachesThePeersAtOnce) {
  RankSetup setup = GetParam();
  auto outcomes = runRanks(setup, [](Fabric &fabric) {
    Buffers buffers(fabric.worldSize());
    auto group = connectWorld(fabric);
    if (fabric.rank() == 1) {
      std::this_thread::sleep_for(300ms);
      fabric.abort("the disk is full");
      return;
    }
    auto ticket = buffers.start(*group, 7);
    auto begin = Clock::now();
    try {
      group->wait(ticket);
    } catch (const Error &) {
      require(Clock::now() - begin < 5s, "the error came late");
      throw;
    }
  });
  EXPECT_EQ(outcomes[1], "");
  for (int rank = 0; rank < setup.worldSize; ++rank)
    if (rank != 1) {
      EXPECT_THAT(outcomes[rank],
                  AllOf(StartsWith("E090"), kNamesTransfer,
                        HasSubstr("rank 1 failed: the disk is full")))
          << "rank " << rank;
    }
}

TEST_P(Failure, LeavingWithATransferInFlightFailsThePeers) {
  RankSetup setup = GetParam();
  auto outcomes = runRanks(setup, [](Fabric &fabric) {
    Buffers buffers(fabric.worldSize());
    auto group = connectWorld(fabric);
    auto ticket = buffers.start(*group, 7);
    if (fabric.rank() == 1)
      return;
    group->wait(ticket);
    // The transfer may have come through before the other left.
    group->wait(buffers.start(*group, 8));
  });
  EXPECT_EQ(outcomes[1], "");
  for (int rank = 0; rank < setup.worldSize; ++rank)
    if (rank != 1) {
      EXPECT_THAT(outcomes[rank],
                  AllOf(StartsWith("E090"), HasSubstr("rank 1")))
          << "rank " << rank;
    }
}

TEST_P(Failure, ExchangeNamesWhoIsMissing) {
  RankSetup setup = GetParam();
  setup.deadline = 3s;
  auto outcomes = runRanks(setup, [](Fabric &fabric) {
    if (fabric.rank() == 1)
      std::this_thread::sleep_for(6s);
    else
      fabric.exchange("plan", "1234");
  });
  EXPECT_EQ(outcomes[1], "");
  for (int rank = 0; rank < setup.worldSize; ++rank)
    if (rank != 1) {
      EXPECT_THAT(outcomes[rank],
                  AllOf(AnyOf(StartsWith("E090"), StartsWith("E091")),
                        HasSubstr("exchange of 'plan'"),
                        HasSubstr("expected rank 1 to come")))
          << "rank " << rank;
    }
}

INSTANTIATE_TEST_SUITE_P(
    , Failure,
    testing::Values(RankSetup{"local", 2}, RankSetup{"local", 4},
                    RankSetup{"gloo", 2}, RankSetup{"gloo", 3}),
    [](const auto &info) {
      return info.param.backend + "_" + std::to_string(info.param.worldSize);
    });

TEST(LocalFailure, RanksThatDisagreeAreTold) {
  auto outcomes = runRanks({"local", 2}, [](Fabric &fabric) {
    Buffers buffers(2);
    auto group = connectWorld(fabric);
    Member member{buffers.shard.data(), buffers.full.data(),
                  size_t(4) << fabric.rank()};
    group->wait(group->start(
        {{CollectiveKind::all_gather, "layers.3", 7}, {&member, 1}}));
  });
  EXPECT_THAT(outcomes,
              testing::Contains(AllOf(StartsWith("E098"), kNamesTransfer,
                                      HasSubstr("all_gather of 4 bytes"),
                                      HasSubstr("all_gather of 8 bytes"))));
  EXPECT_THAT(outcomes, testing::Contains(StartsWith("E090")));
}

class KilledRank : public testing::TestWithParam<std::pair<int, int>> {};

TEST_P(KilledRank, IsNamedByThePeersAtOnce) {
  auto [world, victim] = GetParam();
  auto outcomes = runRanks({"gloo", world}, [victim = victim](Fabric &fabric) {
    Buffers buffers(fabric.worldSize());
    auto group = connectWorld(fabric);
    group->wait(buffers.start(*group, 6));
    if (fabric.rank() == victim)
      raise(SIGKILL);
    auto begin = Clock::now();
    try {
      group->wait(buffers.start(*group, 7));
    } catch (const Error &) {
      require(Clock::now() - begin < 10s, "the error came late");
      throw;
    }
  });
  for (int rank = 0; rank < world; ++rank)
    if (rank == victim) {
      EXPECT_EQ(outcomes[rank], "killed by signal 9");
    } else {
      // The victim may be through with step 6 before the others are.
      EXPECT_THAT(outcomes[rank],
                  AllOf(StartsWith("E090"),
                        HasSubstr("all_gather of bucket 'layers.3' in step "),
                        HasSubstr("rank " + std::to_string(victim))))
          << "rank " << rank;
    }
}

INSTANTIATE_TEST_SUITE_P(, KilledRank,
                         testing::Values(std::pair(2, 1), std::pair(2, 0),
                                         std::pair(3, 2), std::pair(3, 0)),
                         [](const auto &info) {
                           return std::to_string(info.param.second) + "_of_" +
                                  std::to_string(info.param.first);
                         });

/// Stops this process, as a machine does that is lost: nobody closes its
/// connections. It is killed in the end.
void stopFor(unsigned seconds) {
  if (fork() == 0) {
    sleep(seconds);
    kill(getppid(), SIGKILL);
    _exit(0);
  }
  raise(SIGSTOP);
}

class StoppedRank : public testing::TestWithParam<int> {};

TEST_P(StoppedRank, IsNoticedAtTheDeadline) {
  int victim = GetParam();
  RankSetup setup{"gloo", 3, 4s};
  auto outcomes = runRanks(setup, [&](Fabric &fabric) {
    Buffers buffers(fabric.worldSize());
    auto group = connectWorld(fabric);
    group->wait(buffers.start(*group, 6));
    if (fabric.rank() == victim)
      stopFor(14);
    auto begin = Clock::now();
    try {
      group->wait(buffers.start(*group, 7));
      fabric.exchange("never", "");
    } catch (const Error &) {
      require(Clock::now() - begin < 12s, "the error came late");
      throw;
    }
  });
  for (int rank = 0; rank < setup.worldSize; ++rank)
    if (rank == victim)
      EXPECT_EQ(outcomes[rank], "killed by signal 9");
    else
      EXPECT_THAT(outcomes[rank],
                  AllOf(AnyOf(StartsWith("E090"), StartsWith("E091")),
                        HasSubstr("rank " + std::to_string(victim))))
          << "rank " << rank;
}

// Rank 0 serves the store.
INSTANTIATE_TEST_SUITE_P(, StoppedRank, testing::Values(0, 2));

int brokenPipes = 0;

/// Whether this process survives a write to a pipe that nobody reads.
void writeToNobody() {
  int ends[2];
  require(pipe(ends) == 0, "no pipe can be made");
  close(ends[0]);
  require(write(ends[1], "x", 1) == -1 && errno == EPIPE,
          "the write to nobody went through");
  close(ends[1]);
}

TEST(ConnectionOfADeadPeer, RaisesNoSignal) {
  EXPECT_THAT(runRanks({"gloo", 2}, [](Fabric &) { writeToNobody(); }),
              testing::Each(""));
}

TEST(ConnectionOfADeadPeer, LeavesTheProgramsOwnHandler) {
  auto previous = signal(SIGPIPE, [](int) { ++brokenPipes; });
  auto outcomes = runRanks({"gloo", 1}, [](Fabric &) {
    writeToNobody();
    require(brokenPipes == 1, "the program's own handler was not called");
  });
  signal(SIGPIPE, previous);
  EXPECT_THAT(outcomes, testing::Each(""));
}

/// Comes as rank 2 of three to where gloo's addresses are left, and is gone
/// before it connects. The others wait for it to connect if its address is
/// above theirs, and connect to it if it is below.
struct GoneRank {
  bool isAbove;

  std::unique_ptr<Fabric> connect(const FabricOptions &options) const {
    if (std::getenv("RANK") != std::string("2"))
      return connectGlooFabric(options);
    Rendezvous where = parseRendezvous("env://");
    auto store = connectStore(where, 2, 3, options.deadline);
    const std::string group = "group/world,0,1,2#0/";
    for (const std::string &key : {"rank/2"s, "join/2"s, group + "come/2"})
      store->set(key, "");
    auto meeting = store->under(group);
    meeting->wait({"meeting/0/0"}, 60s);
    std::string address = meeting->get_to_str("meeting/0/0");
    // 127.0.0.1 in a sockaddr_in, with its port in front.
    size_t host = address.find("\x7f\0\0\1"s);
    require(host != std::string::npos, "rank 0's address is not understood");
    if (isAbove)
      address.replace(host, 4, "\x7f\0\0\2"s);
    else
      address.replace(host - 2, 2, "\0\1"s);
    meeting->set("meeting/0/2", address);
    raise(SIGKILL);
    return nullptr;
  }
};

class RankThatDoesNotConnect : public testing::TestWithParam<bool> {};

TEST_P(RankThatDoesNotConnect, IsNamedAtTheDeadline) {
  RankSetup setup{"gloo", 3, 4s};
  GoneRank gone{GetParam()};
  setup.connect = [&](const FabricOptions &options) {
    return gone.connect(options);
  };
  auto outcomes = runRanks(setup, [](Fabric &fabric) {
    auto begin = Clock::now();
    try {
      connectWorld(fabric);
    } catch (const Error &) {
      require(Clock::now() - begin < 9s, "the error came late");
      throw;
    }
  });
  for (int rank : {0, 1})
    EXPECT_THAT(outcomes[rank],
                AllOf(AnyOf(StartsWith("E090"), StartsWith("E091")),
                      HasSubstr("connecting group 'world': expected rank 2 to "
                                "connect within 4 s")));
}

INSTANTIATE_TEST_SUITE_P(, RankThatDoesNotConnect, testing::Bool(),
                         [](const auto &info) {
                           return info.param ? "above" : "below";
                         });

TEST(NetworkInterface, ThatIsNotThereIsRefused) {
  setenv("GLOO_SOCKET_IFNAME", "none7", 1);
  RankSetup setup{"gloo", 2};
  // Ranks that meet at 127.0.0.1 need none.
  setup.meetInFile = true;
  auto outcomes = runRanks(setup, [](Fabric &fabric) { connectWorld(fabric); });
  unsetenv("GLOO_SOCKET_IFNAME");
  EXPECT_THAT(outcomes,
              testing::Contains(
                  AllOf(StartsWith("E094"),
                        HasSubstr("expected a network interface for gloo"))));
}

TEST(AbsentRank, IsNamed) {
  RankSetup setup{"gloo", 3, 1s};
  setup.absent = {2};
  auto outcomes = runRanks(setup, [](Fabric &) {});
  for (int rank : {0, 1})
    EXPECT_THAT(outcomes[rank],
                AllOf(AnyOf(StartsWith("E092"), StartsWith("E090")),
                      HasSubstr("expected rank 2 to come within 1 s")));
}

TEST(AbsentRank, LeavesThePortUnserved) {
  RankSetup setup{"gloo", 2, 2s};
  setup.absent = {0};
  auto outcomes = runRanks(setup, [](Fabric &) {});
  EXPECT_THAT(outcomes[1], AllOf(StartsWith("E095"), HasSubstr("127.0.0.1:")));
}

} // namespace
