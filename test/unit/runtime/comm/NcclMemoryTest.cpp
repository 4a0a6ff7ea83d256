//===- NcclMemoryTest.cpp - Memory that NCCL is given, or takes -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "NcclHarness.h"

#include <gmock/gmock.h>

using namespace fsdp;
using namespace fsdp::test;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

using NcclMemory = NcclTest;

TEST_F(NcclMemory, TheArenaIsRegisteredWithAllCommunicatorsIfAsked) {
  setenv("FSDP_NCCL_REGISTER", "1", 1);
  connect(0, 2);
  auto before = world("gather");
  auto memory = fabric->allocateArena(5000);
  auto after = world("reduce");
  ASSERT_TRUE(memory);
  std::vector<NcclCall> windows;
  for (const NcclCall &call : script->calls)
    if (call.name == "ncclCommWindowRegister")
      windows.push_back(call);
  ASSERT_EQ(windows.size(), 2u);
  for (int i : {0, 1}) {
    EXPECT_EQ(windows[i].comm, i);
    EXPECT_EQ(windows[i].send, memory.get());
    EXPECT_EQ(windows[i].count, 8192u);
  }
  for (const char *group : {"gather", "reduce"})
    EXPECT_THAT(notes, testing::Contains(testing::StartsWith(
                           "8192 bytes are registered with group '" +
                           std::string(group) + "'")));
  script->calls.clear();
  before.reset();
  after.reset();
  fabric.reset();
  memory.reset();
  std::vector<std::string> names;
  for (const NcclCall &call : script->calls)
    names.push_back(call.name);
  EXPECT_THAT(names, ElementsAre("ncclCommWindowDeregister",
                                 "ncclCommWindowDeregister", "ncclMemFree"));
}

TEST_F(NcclMemory, SaysWhyTheArenaIsNotRegistered) {
  connect(0, 2);
  EXPECT_FALSE(fabric->allocateArena(4096)); // nobody asked
  EXPECT_TRUE(script->calls.empty());

  setenv("FSDP_NCCL_REGISTER", "1", 1);
  script->version = nccl::version(2, 26, 5);
  connect(0, 2);
  EXPECT_FALSE(fabric->allocateArena(4096));
  EXPECT_THAT(notes, testing::Contains("memory is not registered: that needs "
                                       "NCCL 2.27.3 or newer, found 2.26.5"));

  // It shows in what NCCL gives from 2.29 on.
  script->version = nccl::version(2, 29, 2);
  script->makesWindows = false;
  connect(0, 2);
  auto communicator = world("gather");
  auto memory = fabric->allocateArena(4096);
  EXPECT_TRUE(memory);
  EXPECT_THAT(notes, testing::Contains(HasSubstr(
                         "memory is not registered with group 'gather'")));
  communicator.reset();
}

/// The call says success before NCCL is through with it.
TEST_F(NcclMemory, RegistrationIsWaitedForWhateverTheCallSays) {
  setenv("FSDP_NCCL_REGISTER", "1", 1);
  for (int version : {nccl::version(2, 27, 5), nccl::version(2, 28, 9),
                      nccl::version(2, 30, 7)}) {
    SetUp();
    setenv("FSDP_NCCL_REGISTER", "1", 1);
    script->version = version;
    script->callPolls = 20;
    notes.clear();
    connect(0, 2);
    auto memory = fabric->allocateArena(4096);
    auto communicator = world("gather");
    EXPECT_THAT(notes, testing::Contains(HasSubstr(
                           "4096 bytes are registered with group 'gather'")));
    float shard[4] = {}, full[8];
    Member member{shard, full, sizeof(shard)};
    communicator->wait(communicator->start({kGather, {&member, 1}}));
    communicator.reset();
    fabric.reset();
    memory.reset();
    // What was registered was taken back.
    EXPECT_EQ(script->calls.back().name, "ncclMemFree");
    EXPECT_EQ(script->calls[script->calls.size() - 2].name,
              "ncclCommWindowDeregister");
  }
}

TEST_F(NcclMemory, MemoryThatNcclTakesIsCounted) {
  script->initBytes = size_t(200) << 20;
  script->callBytes = size_t(7) << 20;
  connect(0, 2);
  auto first = world("gather"), second = world("reduce");
  EXPECT_EQ(first->stagingBytes(), script->initBytes);
  float shard[4] = {}, full[8];
  Member member{shard, full, sizeof(shard)};
  for (int step = 0; step < 3; ++step) {
    first->wait(first->start({kGather, {&member, 1}}));
    streams->take(1000); // by somebody else
  }
  EXPECT_EQ(first->stagingBytes(), script->initBytes + script->callBytes);
  EXPECT_EQ(second->stagingBytes(), script->initBytes);
}

TEST_F(NcclMemory, CapturesRegisterNothingUnlessAsked) {
  connect(0, 2);
  EXPECT_STREQ(std::getenv("NCCL_GRAPH_REGISTER"), "0");
  setenv("NCCL_GRAPH_REGISTER", "1", 1);
  connect(0, 2);
  EXPECT_STREQ(std::getenv("NCCL_GRAPH_REGISTER"), "1");
}

} // namespace
