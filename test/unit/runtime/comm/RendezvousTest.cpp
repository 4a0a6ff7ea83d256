//===- RendezvousTest.cpp - What launchers and addresses say --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/comm/processes/Rendezvous.h"
#include "runtime/comm/backends/Backends.h"
#include "runtime/comm/processes/Listener.h"
#include "support/Error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <arpa/inet.h>
#include <cerrno>
#include <cstdlib>
#include <netinet/in.h>
#include <optional>
#include <sys/socket.h>
#include <system_error>
#include <thread>
#include <unistd.h>

using namespace fsdp;
using namespace std::chrono_literals;
using testing::HasSubstr;

namespace {

/// The environment of one launched process, and nothing of another launcher.
class Environment : public testing::Test {
protected:
  void SetUp() override {
    for (const char *name :
         {"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT",
          "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
          "OMPI_COMM_WORLD_LOCAL_RANK", "PMI_RANK", "PMI_SIZE",
          "MPI_LOCALRANKID", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID",
          "TORCHELASTIC_USE_AGENT_STORE", "TORCHELASTIC_RESTART_COUNT"})
      unsetenv(name);
  }
  void TearDown() override { SetUp(); }

  void set(std::initializer_list<std::pair<const char *, const char *>> all) {
    for (auto [name, value] : all)
      setenv(name, value, 1);
  }
};

template <typename Call>
std::string refusal(ErrorId id, Call call) {
  try {
    call();
  } catch (const Error &error) {
    EXPECT_EQ(error.id(), id);
    return error.what();
  }
  return "nothing was refused";
}

TEST_F(Environment, WithoutALauncher) {
  EXPECT_FALSE(readLauncher().has_value());
  EXPECT_THAT(refusal(ErrorId::RendezvousInvalid,
                      [] { findBackend("gloo").connect({}); }),
              HasSubstr("expected RANK and WORLD_SIZE"));
}

TEST_F(Environment, Torchrun) {
  set({{"RANK", "3"},
       {"WORLD_SIZE", "8"},
       {"LOCAL_RANK", "1"},
       {"MASTER_ADDR", "node7"},
       {"MASTER_PORT", "29500"},
       {"TORCHELASTIC_USE_AGENT_STORE", "True"},
       {"TORCHELASTIC_RESTART_COUNT", "2"}});
  auto info = readLauncher();
  ASSERT_TRUE(info);
  EXPECT_EQ(info->rank, 3);
  EXPECT_EQ(info->worldSize, 8);
  EXPECT_EQ(info->localRank, 1);
  Rendezvous where = parseRendezvous("env://");
  EXPECT_EQ(where.host, "node7");
  EXPECT_EQ(where.port, 29500);
  EXPECT_TRUE(where.served);
  EXPECT_EQ(where.prefix, "fsdp/");
  EXPECT_FALSE(where.isLoopback());
}

TEST_F(Environment, OtherLaunchers) {
  set({{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "4"}});
  EXPECT_EQ(readLauncher()->launcher, "srun");
  EXPECT_EQ(readLauncher()->localRank, -1);
  set({{"PMI_RANK", "2"}, {"PMI_SIZE", "4"}});
  EXPECT_EQ(readLauncher()->rank, 2);
  set({{"OMPI_COMM_WORLD_RANK", "3"}, {"OMPI_COMM_WORLD_SIZE", "4"}});
  EXPECT_EQ(readLauncher()->rank, 3);
  set({{"RANK", "0"}, {"WORLD_SIZE", "4"}});
  EXPECT_EQ(readLauncher()->rank, 0);
}

TEST_F(Environment, NumbersThatMakeNoSense) {
  set({{"RANK", "4"}, {"WORLD_SIZE", "4"}});
  EXPECT_EQ(refusal(ErrorId::RendezvousInvalid, [] { readLauncher(); }),
            "expected RANK to be a number from 0 to 3, found '4'");
  set({{"RANK", "0"}, {"WORLD_SIZE", "four"}});
  EXPECT_THAT(refusal(ErrorId::RendezvousInvalid, [] { readLauncher(); }),
              HasSubstr("WORLD_SIZE to be a number"));
}

TEST_F(Environment, WorldSizeOfAnotherArtifact) {
  set({{"RANK", "0"}, {"WORLD_SIZE", "2"}});
  FabricOptions options;
  options.worldSize = 4;
  EXPECT_THAT(refusal(ErrorId::WorldSizeMismatch,
                      [&] { findBackend("gloo").connect(options); }),
              HasSubstr("expected 4 ranks"));
}

TEST_F(Environment, Addresses) {
  Rendezvous tcp = parseRendezvous("tcp://localhost:1234");
  EXPECT_EQ(tcp.host, "localhost");
  EXPECT_EQ(tcp.port, 1234);
  EXPECT_TRUE(tcp.isLoopback());
  EXPECT_EQ(parseRendezvous("tcp://[::1]:1234").host, "::1");
  EXPECT_EQ(parseRendezvous("file:///tmp/x").path, "/tmp/x");
  for (const char *bad : {"", "tcp://host", "tcp://:12", "file://tmp/x",
                          "http://host:80", "tcp://host:70000"})
    EXPECT_NE(
        refusal(ErrorId::RendezvousInvalid, [&] { parseRendezvous(bad); }),
        "nothing was refused")
        << bad;
  EXPECT_THAT(
      refusal(ErrorId::RendezvousInvalid, [] { parseRendezvous("env://"); }),
      HasSubstr("MASTER_ADDR"));
}

/// A socket that listens, at a port of its own, and does not accept.
class SilentServer {
public:
  SilentServer() : handle(socket(AF_INET, SOCK_STREAM, 0)) {
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto *generic = reinterpret_cast<sockaddr *>(&address);
    socklen_t length = sizeof(address);
    EXPECT_EQ(bind(handle, generic, length), 0);
    EXPECT_EQ(getsockname(handle, generic, &length), 0);
  }
  ~SilentServer() { close(handle); }
  void begin() { EXPECT_EQ(listen(handle, 16), 0); }
  /// Closes so many connections, then stops to listen.
  void leaveAfter(int connections) {
    // As a process that is killed does: connections are reset.
    linger reset{1, 0};
    for (int i = 0; i < connections; ++i) {
      int connection = accept(handle, nullptr, nullptr);
      setsockopt(connection, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
      close(connection);
    }
    shutdown(handle, SHUT_RDWR);
  }
  int port() const { return ntohs(address.sin_port); }
  /// A connection to it that has nothing to do with the ranks' store.
  int connectOtherwise() const {
    int other = socket(AF_INET, SOCK_STREAM, 0);
    EXPECT_EQ(connect(other, reinterpret_cast<const sockaddr *>(&address),
                      sizeof(address)),
              0);
    return other;
  }

private:
  int handle;
  sockaddr_in address{};
};

std::string connectTo(const SilentServer &server,
                      std::chrono::milliseconds deadline) {
  Rendezvous where;
  where.host = "127.0.0.1";
  where.port = server.port();
  auto begin = std::chrono::steady_clock::now();
  std::string text = refusal(ErrorId::RendezvousFailed, [&] {
    connectStore(where, /*rank=*/1, /*worldSize=*/2, deadline);
  });
  auto time = std::chrono::steady_clock::now() - begin;
  EXPECT_GE(time, deadline);
  EXPECT_LT(time, deadline + 3s);
  return text;
}

TEST(Server, IsGivenUpAtTheDeadline) {
  // Where nobody listens, and where nobody answers.
  SilentServer server;
  for (bool listens : {false, true}) {
    if (listens)
      server.begin();
    EXPECT_THAT(connectTo(server, 2s),
                HasSubstr("rank 1: expected to reach the ranks' store at "
                          "127.0.0.1:" +
                          std::to_string(server.port()) + " within 2 s"));
  }
}

TEST(Server, ThatLeavesIsGivenUpAtTheDeadline) {
  // Before the store's connection comes, and before it is answered.
  for (int connections : {1, 2}) {
    SilentServer server;
    server.begin();
    std::jthread leaving([&] { server.leaveAfter(connections); });
    EXPECT_THAT(connectTo(server, 5s), HasSubstr("within 5 s"));
  }
}

TEST(Server, OthersConnectionsToItAreLeftAlone) {
  SilentServer server;
  server.begin();
  int other = server.connectOtherwise();
  connectTo(server, 1s);
  char byte;
  EXPECT_EQ(recv(other, &byte, 1, MSG_DONTWAIT), -1);
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_EQ(send(other, "x", 1, MSG_NOSIGNAL), 1);
  timeval limit{};
  socklen_t length = sizeof(limit);
  getsockopt(other, SOL_SOCKET, SO_RCVTIMEO, &limit, &length);
  EXPECT_EQ(limit.tv_sec + limit.tv_usec, 0);
  close(other);
}

TEST(Listener, ListensAtItsAddressAlone) {
  SilentServer taken;
  taken.begin();
  EXPECT_THROW(listenAt("127.0.0.1", taken.port()), std::system_error);
  // Another address of this machine has a port of that number, too.
  std::optional<int> handle = listenAt("127.0.0.7", taken.port());
  ASSERT_TRUE(handle);
  sockaddr_in address{};
  socklen_t length = sizeof(address);
  getsockname(*handle, reinterpret_cast<sockaddr *>(&address), &length);
  EXPECT_EQ(ntohl(address.sin_addr.s_addr), INADDR_LOOPBACK + 6);
  close(*handle);
  // What is no address of this machine is left to the store.
  EXPECT_FALSE(listenAt("192.0.2.1", taken.port()));
}

TEST(Listener, IsFoundWhenItComes) {
  SilentServer server;
  auto now = std::chrono::steady_clock::now;
  EXPECT_FALSE(waitForListener("127.0.0.1", server.port(), now() + 300ms));
  std::thread late([&] {
    std::this_thread::sleep_for(500ms);
    server.begin();
  });
  auto begin = now();
  EXPECT_TRUE(waitForListener("localhost", server.port(), now() + 60s));
  EXPECT_GE(now() - begin, 400ms);
  late.join();
  EXPECT_FALSE(
      waitForListener("no-such-host.invalid", server.port(), now() + 100ms));
}

TEST(Backends, AreFoundByName) {
  EXPECT_TRUE(findBackend("local").inProcess);
  EXPECT_FALSE(findBackend("gloo").inProcess);
  EXPECT_EQ(refusal(ErrorId::UnknownBackend, [] { findBackend("mpi"); }),
            "expected one of local, gloo, nccl, fake as back end, found 'mpi'");
  EXPECT_FALSE(findBackend("nccl").inProcess);
}

} // namespace
