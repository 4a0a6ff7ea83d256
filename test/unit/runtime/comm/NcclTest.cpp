//===- NcclTest.cpp - What NCCL is asked for ------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "NcclHarness.h"
#include "plan/DType.h"
#include "runtime/comm/backends/Backends.h"
#include "runtime/comm/nccl/Reduction.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <gmock/gmock.h>

#include <array>
#include <cstring>
#include <set>

using namespace fsdp;
using namespace fsdp::test;
using plan::DType;
using plan::Reduction;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

class NcclWorlds : public NcclTest, public testing::WithParamInterface<int> {};

TEST_P(NcclWorlds, OneMemberIsOneCallOverItsOwnMemory) {
  int size = GetParam();
  for (int rank : {0, size / 2, size - 1}) {
    script->calls.clear();
    connect(rank, size);
    auto communicator = world("world");
    EXPECT_EQ(communicator->rank(), rank);
    EXPECT_EQ(communicator->size(), size);
    alignas(16) float shard[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    std::array<std::byte, sizeof(shard)> given;
    std::memcpy(given.data(), shard, sizeof(shard));
    std::vector<float> full(8 * size);
    Member gather{shard, full.data(), sizeof(shard)};
    communicator->wait(communicator->start({kGather, {&gather, 1}}));
    Member reduce{full.data(), shard, 8, DType::f32};
    communicator->wait(
        communicator->start({kReduce, {&reduce, 1}, Reduction::sum}));

    ASSERT_EQ(script->calls.size(), 2u);
    const NcclCall &first = script->calls[0], &second = script->calls[1];
    EXPECT_EQ(first.name, "ncclAllGather");
    EXPECT_EQ(first.send, shard);
    EXPECT_EQ(first.receive, full.data());
    EXPECT_EQ(first.bytes(), 32u);
    EXPECT_EQ(first.ranks, size);
    EXPECT_EQ(first.group, 0);
    EXPECT_EQ(second.name, "ncclReduceScatter");
    EXPECT_EQ(second.send, full.data());
    EXPECT_EQ(second.receive, shard);
    EXPECT_EQ(second.count, 8u);
    EXPECT_EQ(second.type, nccl::DataType::float32);
    EXPECT_EQ(second.op, nccl::RedOp::sum);
    EXPECT_EQ(second.group, 0);
    // Each rank's data at its place; all of them are summed.
    for (int other = 0; other < size; ++other)
      for (size_t i = 0; i < sizeof(shard); ++i)
        ASSERT_EQ(reinterpret_cast<std::byte *>(&full[8 * other])[i],
                  peerByte(given[i], rank, other));
    float sum = 0;
    for (int other = 0; other < size; ++other)
      sum += 8.0f + static_cast<float>(peerSummand(rank, other));
    EXPECT_EQ(shard[7], sum);
  }
}

TEST_P(NcclWorlds, SeveralMembersAreOneGroupWithoutEmptyOnes) {
  int size = GetParam();
  connect(size - 1, size);
  auto communicator = world("world");
  std::vector<std::vector<float>> shards, fulls;
  Members gathers;
  Members reduces;
  for (size_t elements : {size_t(5), size_t(0), size_t(64), size_t(1)}) {
    shards.emplace_back(elements, 1.0f);
    fulls.emplace_back(elements * size);
    gathers.push_back(
        {shards.back().data(), fulls.back().data(), elements * 4});
    reduces.push_back(
        {fulls.back().data(), shards.back().data(), elements, DType::f32});
  }
  communicator->wait(communicator->start({kGather, gathers}));
  communicator->wait(communicator->start({kReduce, reduces, Reduction::avg}));
  ASSERT_EQ(script->calls.size(), 6u);
  size_t bytes = 0;
  for (size_t i = 0; i < 6; ++i) {
    const NcclCall &call = script->calls[i];
    size_t member = i % 3 ? i % 3 + 1 : 0;
    EXPECT_EQ(call.group,
              i < 3 ? script->calls[0].group : script->calls[0].group + 1);
    EXPECT_EQ(call.name, i < 3 ? "ncclAllGather" : "ncclReduceScatter");
    EXPECT_EQ(i < 3 ? call.send : call.receive, shards[member].data());
    EXPECT_EQ(i < 3 ? call.receive : call.send, fulls[member].data());
    bytes += call.bytes() * size;
  }
  EXPECT_NE(script->calls[0].group, 0);
  EXPECT_EQ(bytes, size_t(2) * 70 * 4 * size);
}

TEST_P(NcclWorlds, ARotationSendsToTheNextRankAndReceivesInOneGroup) {
  int size = GetParam();
  for (int rank : {0, size - 1}) {
    script->calls.clear();
    connect(rank, size);
    auto communicator = world("world");
    std::array<std::byte, 40> from, to;
    from.fill(std::byte(7));
    Member members[] = {{from.data(), to.data(), 32},
                        {nullptr, nullptr, 0},
                        {&from[32], &to[32], 8}};
    communicator->wait(
        communicator->start({{CollectiveKind::rotate, "fc1", 0}, members}));
    ASSERT_EQ(script->calls.size(), 4u);
    int previous = (rank + size - 1) % size;
    for (size_t i = 0; i < 4; ++i) {
      const NcclCall &call = script->calls[i];
      EXPECT_EQ(call.name, i % 2 ? "ncclRecv" : "ncclSend");
      EXPECT_EQ(call.peer, i % 2 ? previous : (rank + 1) % size);
      EXPECT_NE(call.group, 0);
      EXPECT_EQ(call.group, script->calls[0].group);
      EXPECT_EQ(call.bytes(), i < 2 ? 32u : 8u);
    }
    for (std::byte byte : to)
      EXPECT_EQ(byte, peerByte(std::byte(7), rank, previous));
  }
}

TEST_P(NcclWorlds, AnExchangeIsOneSendAndOneReceiveForEachRank) {
  int size = GetParam();
  for (int rank : {0, size - 1}) {
    script->calls.clear();
    connect(rank, size);
    auto communicator = world("world");
    size_t whole = size_t(32) * size, part = 8;
    std::vector<std::byte> from(whole), to(whole), small(part * size),
        smallTo(part * size);
    for (int peer = 0; peer < size; ++peer) {
      std::fill_n(&from[size_t(32) * peer], 32, std::byte(peer % 199));
      std::fill_n(&small[part * peer], part, std::byte(peer % 31));
    }
    Member members[] = {{from.data(), to.data(), 32},
                        {nullptr, nullptr, 0},
                        {small.data(), smallTo.data(), part}};
    communicator->wait(
        communicator->start({{CollectiveKind::all_to_all, "fc1", 0}, members}));
    auto ranks = static_cast<size_t>(size);
    ASSERT_EQ(script->calls.size(), 4 * ranks);
    for (size_t i = 0; i < 4 * ranks; ++i) {
      const NcclCall &call = script->calls[i];
      EXPECT_EQ(call.name, i % 2 ? "ncclRecv" : "ncclSend");
      EXPECT_EQ(call.peer, int(i / 2 % ranks));
      // No more in a group than NCCL takes.
      EXPECT_EQ(call.group,
                script->calls[0].group + int(i / nccl::kMostGrouped));
      EXPECT_EQ(call.bytes(), i < 2 * ranks ? 32u : part);
    }
    for (int peer = 0; peer < size; ++peer) {
      EXPECT_EQ(to[size_t(32) * peer],
                peerByte(std::byte(peer % 199), rank, peer));
      EXPECT_EQ(smallTo[part * peer],
                peerByte(std::byte(peer % 31), rank, peer));
    }
  }
}

TEST_P(NcclWorlds, AnEmptyBucketIsNoCall) {
  connect(0, GetParam());
  auto communicator = world("world");
  Member empty{nullptr, nullptr, 0};
  communicator->wait(communicator->start({kGather, {&empty, 1}}));
  communicator->wait(communicator->start({kGather, {}}));
  EXPECT_TRUE(script->calls.empty());
}

INSTANTIATE_TEST_SUITE_P(, NcclWorlds,
                         testing::Values(2, 3, 4, 8, 48, 64, 256, 512, 1024));

TEST_F(NcclTest, TheFakeIsFoundByItsNameWhereItsBuildIsNot) {
  EXPECT_EQ(&useFakeNccl("/nowhere/libfake-nccl.so"), script);
  EXPECT_STREQ(getenv("FSDP_NCCL_LIBRARY"), "libfake-nccl.so");
  EXPECT_THROW(useFakeNccl("/nowhere/libno-nccl.so"), std::runtime_error);
}

TEST_F(NcclTest, ATransferIsBetweenItsStartAndItsWait) {
  connect(0, 2);
  auto communicator = world("dp/gather");
  StreamHandle compute = streams->compute();
  float shard[4] = {}, full[8];
  Member member{shard, full, sizeof(shard)};
  size_t before = streams->put(compute, "optimizer");
  auto ticket = communicator->start({kGather, {&member, 1}});
  size_t beside = streams->put(compute, "matmul");
  communicator->wait(ticket);
  size_t after = streams->put(compute, "attention");
  ASSERT_EQ(works("ncclAllGather").size(), 1u);
  size_t call = works("ncclAllGather")[0];
  EXPECT_TRUE(streams->isBefore(before, call));
  EXPECT_FALSE(streams->isBefore(call, beside));
  EXPECT_FALSE(streams->isBefore(beside, call));
  EXPECT_TRUE(streams->isBefore(call, after));
  EXPECT_THAT(streams->log(),
              ElementsAre("compute: optimizer", "compute: record",
                          "dp/gather: wait", "dp/gather: ncclAllGather",
                          "dp/gather: record", "compute: matmul",
                          "compute: wait", "compute: attention"));
}

/// NCCL puts a call's work on its stream after the call has returned.
TEST_F(NcclTest, TheEventBehindATransferWaitsForNccl) {
  for (size_t members : {1, 3}) {
    SetUp();
    script->callPolls = 50;
    connect(0, 2);
    auto communicator = world("dp");
    float shard[4] = {}, full[8];
    Members all(members, {shard, full, sizeof(shard)});
    communicator->wait(communicator->start({kGather, all}));
    size_t after = streams->put(streams->compute(), "matmul");
    ASSERT_EQ(works("ncclAllGather").size(), members);
    for (size_t call : works("ncclAllGather"))
      EXPECT_TRUE(streams->isBefore(call, after));
  }
}

/// A stream that is captured cannot wait for work that is not, nor the other
/// way round once the capture is over.
TEST_F(NcclTest, CapturesStandBetweenCallsWhereNcclKeepsNoOrder) {
  script->version = nccl::version(2, 21, 5);
  connect(0, 2);
  auto gathers = world("gather"), reductions = world("reduce");
  float shard[4] = {}, full[8] = {};
  auto transfer = [&] {
    Member gather{shard, full, sizeof(shard)};
    Member reduce{full, shard, 4, DType::f32};
    gathers->wait(gathers->start({kGather, {&gather, 1}}));
    reductions->wait(
        reductions->start({kReduce, {&reduce, 1}, Reduction::sum}));
  };
  transfer();
  for (int captures = 0; captures < 2; ++captures) {
    streams->beginCapture();
    transfer();
    EXPECT_TRUE(streams->isCapturing(streams->find("gather")));
    streams->endCapture();
    EXPECT_FALSE(streams->isCapturing(streams->find("gather")));
    gathers->keepCaptured();
    reductions->keepCaptured();
    transfer();
  }
  EXPECT_EQ(peers->failure(), std::nullopt);
}

/// Several programs may be captured one behind the other.
TEST_F(NcclTest, OneCaptureDoesNotWaitForAnotherWhereNcclKeepsNoOrder) {
  script->version = nccl::version(2, 21, 5);
  connect(0, 2);
  auto gathers = world("gather"), reductions = world("reduce");
  float shard[4] = {}, full[8] = {};
  for (bool isKept : {true, false, true}) {
    streams->beginCapture();
    Member gather{shard, full, sizeof(shard)};
    Member reduce{full, shard, 4, DType::f32};
    gathers->wait(gathers->start({kGather, {&gather, 1}}));
    reductions->wait(
        reductions->start({kReduce, {&reduce, 1}, Reduction::sum}));
    streams->endCapture();
    for (auto *each : {gathers.get(), reductions.get()})
      if (isKept)
        each->keepCaptured();
      else
        each->abandon();
  }
  EXPECT_EQ(peers->failure(), std::nullopt);
}

TEST_F(NcclTest, GathersAndReductionsHaveTheirOwnCommunicatorsAndStreams) {
  connect(5, 8);
  auto gathers = fabric->createCommunicator(
      group("dp_shard/gather", 4, 4, 1, plan::Stream::gather));
  auto reductions = fabric->createCommunicator(
      group("dp_shard/reduce", 4, 4, 1, plan::Stream::reduce));
  auto replicas = fabric->createCommunicator(
      group("dp_replicate/replicate", 2, 1, 4, plan::Stream::replicate));
  EXPECT_EQ(gathers->rank(), 1);
  EXPECT_EQ(replicas->rank(), 1);
  EXPECT_EQ(script->alive, 3);
  alignas(16) float shard[4] = {1, 1, 1, 1}, full[16] = {};
  Member gather{shard, full, sizeof(shard)};
  Member reduce{full, shard, 4, DType::f32};
  Member all{shard, shard, 4, DType::f32};
  auto gathered = gathers->start({kGather, {&gather, 1}});
  auto reduced = reductions->start({kReduce, {&reduce, 1}, Reduction::sum});
  auto summed = replicas->start({kAllReduce, {&all, 1}, Reduction::sum});
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(script->calls[i].comm, i);
  EXPECT_EQ(script->calls[1].ranks, 4);
  EXPECT_EQ(script->calls[2].ranks, 2);
  EXPECT_EQ(streams->name(script->calls[0].stream), "dp_shard/gather");
  EXPECT_EQ(streams->name(script->calls[1].stream), "dp_shard/reduce");
  EXPECT_EQ(streams->name(script->calls[2].stream), "dp_replicate/replicate");
  EXPECT_EQ(streams->priority(script->calls[0].stream), StreamPriority::high);
  EXPECT_EQ(streams->priority(script->calls[1].stream), StreamPriority::high);
  EXPECT_EQ(streams->priority(script->calls[2].stream), StreamPriority::normal);
  // NCCL keeps the calls' order where it can; the streams overlap.
  EXPECT_STREQ(std::getenv("NCCL_LAUNCH_ORDER_IMPLICIT"), "1");
  EXPECT_FALSE(streams->isBefore(works("ncclAllGather")[0],
                                 works("ncclReduceScatter")[0]));
  replicas->wait(summed);
  reductions->wait(reduced);
  gathers->wait(gathered);
  for (const nccl::Config &config : script->configs) {
    EXPECT_EQ(config.blocking, 0);
    EXPECT_EQ(config.splitShare, 0);
    EXPECT_EQ(config.maxCTAs, nccl::Config::undefined);
  }
}

TEST_F(NcclTest, TheEnvironmentIsWrittenBeforeThereAreThreadsAndNotLater) {
  unsetenv("NCCL_LAUNCH_ORDER_IMPLICIT");
  unsetenv("NCCL_GRAPH_REGISTER");
  connect(0, 2);
  EXPECT_EQ(std::getenv("NCCL_LAUNCH_ORDER_IMPLICIT"), nullptr);
  EXPECT_EQ(std::getenv("NCCL_GRAPH_REGISTER"), nullptr);
  findBackend("nccl").prepare();
  EXPECT_STREQ(std::getenv("NCCL_LAUNCH_ORDER_IMPLICIT"), "1");
  EXPECT_STREQ(std::getenv("NCCL_GRAPH_REGISTER"), "0");
}

TEST_F(NcclTest, OneStreamAfterAnotherWhereNcclKeepsNoOrder) {
  for (const char *asked : {"old", "0", "unset"}) {
    SetUp();
    if (asked == std::string("old"))
      script->version = nccl::version(2, 21, 5);
    else if (asked == std::string("0"))
      setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "0", 1);
    else
      unsetenv("NCCL_LAUNCH_ORDER_IMPLICIT");
    connect(0, 2);
    auto gathers = world("gather"), reductions = world("reduce");
    float shard[4] = {}, full[8] = {};
    Member gather{shard, full, sizeof(shard)};
    Member reduce{full, shard, 4, DType::f32};
    auto one = gathers->start({kGather, {&gather, 1}});
    auto two = reductions->start({kReduce, {&reduce, 1}, Reduction::sum});
    auto three = gathers->start({kGather, {&gather, 1}});
    gathers->wait(three);
    gathers->wait(one);
    reductions->wait(two);
    size_t reduction = works("ncclReduceScatter")[0];
    EXPECT_TRUE(streams->isBefore(works("ncclAllGather")[0], reduction));
    EXPECT_TRUE(streams->isBefore(reduction, works("ncclAllGather")[1]));
    EXPECT_THAT(notes, testing::Contains(HasSubstr("do not overlap")));
    notes.clear();
    fabric.reset();
  }
}

TEST_F(NcclTest, EveryTypeIsReducedOrRefused) {
  const std::map<DType, std::pair<nccl::DataType, size_t>> sums = {
      {DType::f32, {nccl::DataType::float32, 1}},
      {DType::f64, {nccl::DataType::float64, 1}},
      {DType::f16, {nccl::DataType::float16, 1}},
      {DType::bf16, {nccl::DataType::bfloat16, 1}},
      {DType::i64, {nccl::DataType::int64, 1}},
      {DType::i32, {nccl::DataType::int32, 1}},
      {DType::i8, {nccl::DataType::int8, 1}},
      {DType::u8, {nccl::DataType::uint8, 1}},
      {DType::u32, {nccl::DataType::uint32, 1}},
      {DType::u64, {nccl::DataType::uint64, 1}},
      {DType::c64, {nccl::DataType::float32, 2}},
      {DType::c128, {nccl::DataType::float64, 2}}};
  for (DType dtype : plan::EnumValuesDType()) {
    auto found = sums.find(dtype);
    if (found != sums.end()) {
      NcclReduction reduction = toNcclReduction(dtype, Reduction::sum, 2);
      EXPECT_EQ(reduction.element.type, found->second.first);
      EXPECT_EQ(reduction.element.parts, found->second.second);
      EXPECT_EQ(elementBytes(reduction.element.type) * reduction.element.parts,
                dtypeBytes(dtype));
    } else {
      EXPECT_THAT(errorOf(ErrorId::ReductionUnsupported,
                          [&] { toNcclReduction(dtype, Reduction::sum, 2); }),
                  HasSubstr(std::string(dtypeName(dtype))));
    }
  }
  EXPECT_EQ(toNcclReduction(DType::bool_, Reduction::max, 2).element.type,
            nccl::DataType::uint8);
  EXPECT_THAT(
      errorOf(ErrorId::ReductionUnsupported,
              [] { toNcclReduction(DType::i32, {Reduction::sum, 1, 2}, 2); }),
      HasSubstr("cannot be divided"));
}

TEST_F(NcclTest, SumsAreDividedWhereTheyAskForIt) {
  struct Case {
    Combination combination;
    nccl::RedOp op; ///< sum: or one that NCCL made
    double factor;  ///< of the operands; 0: none
    bool divides;
    float expected; ///< from 11, 12, 13 and 14
  };
  const Case cases[] = {
      {Reduction::sum, nccl::RedOp::sum, 0, false, 50},
      {Reduction::avg, nccl::RedOp::avg, 0, false, 12.5f},
      {Reduction::max, nccl::RedOp::max, 0, false, 14},
      {{Reduction::sum, 2, 1}, nccl::RedOp::sum, 0.5, false, 25},
      {{Reduction::sum, 1, 4}, nccl::RedOp::sum, 0, true, 12.5f},
      {{Reduction::sum, 2, 4}, nccl::RedOp::sum, 0.5, true, 6.25f},
      {{Reduction::avg, 2, 1}, nccl::RedOp::sum, 0.5, true, 6.25f},
  };
  connect(1, 4);
  auto communicator = world("world");
  for (const Case &each : cases)
    for (bool all : {false, true})
      for (bool half : {false, true}) {
        script->calls.clear();
        size_t divisions = works("divide").size();
        alignas(16) c10::Half halves[16];
        alignas(16) float floats[16];
        std::fill_n(halves, 16, c10::Half(12.0f));
        std::fill_n(floats, 16, 12.0f);
        void *data = half ? static_cast<void *>(halves) : floats;
        DType dtype = half ? DType::f16 : DType::f32;
        Member whole{data, data, 4, dtype};
        Member part{data, data, 4, dtype};
        auto ticket =
            all ? communicator->start(
                      {kAllReduce, {&whole, 1}, each.combination})
                : communicator->start({kReduce, {&part, 1}, each.combination});
        communicator->wait(ticket);
        ASSERT_EQ(script->calls.size(), 1u);
        auto made = script->factors.find(int(script->calls[0].op));
        if (each.factor) {
          ASSERT_NE(made, script->factors.end());
          EXPECT_EQ(made->second, each.factor);
        } else {
          EXPECT_EQ(script->calls[0].op, each.op);
        }
        EXPECT_EQ(works("divide").size() - divisions, each.divides ? 1u : 0u);
        EXPECT_EQ(half ? float(halves[0]) : floats[0], each.expected);
      }
  // One operation for each type and factor, however often it is used.
  EXPECT_EQ(script->factors.size(), 2u);
}

TEST_F(NcclTest, DivisionsAreBehindTheCallOnItsStream) {
  connect(0, 2);
  auto communicator = world("reduce");
  alignas(16) float full[8] = {}, shard[4] = {};
  Member member{full, shard, 4, DType::f32};
  auto ticket =
      communicator->start({kReduce, {&member, 1}, {Reduction::sum, 1, 2}});
  communicator->wait(ticket);
  size_t after = streams->put(streams->compute(), "optimizer");
  EXPECT_THAT(
      streams->log(),
      testing::IsSupersetOf({"reduce: ncclReduceScatter", "reduce: divide"}));
  EXPECT_TRUE(
      streams->isBefore(works("ncclReduceScatter")[0], works("divide")[0]));
  EXPECT_TRUE(streams->isBefore(works("divide")[0], after));
}

TEST_F(NcclTest, OneRankNeedsNoNccl) {
  setenv("FSDP_NCCL_LIBRARY", "/nowhere/libnccl.so.2", 1);
  connect(0, 1);
  auto communicator = world("self");
  float data[4] = {2, 4, 6, 8}, other[4] = {};
  Member inPlace{data, data, sizeof(data)};
  communicator->wait(communicator->start({kGather, {&inPlace, 1}}));
  Member own{data, data, 4, DType::f32};
  communicator->wait(communicator->start({kReduce, {&own, 1}, Reduction::avg}));
  EXPECT_TRUE(streams->all().empty());
  Member elsewhere{data, other, sizeof(data)};
  communicator->wait(communicator->start({kGather, {&elsewhere, 1}}));
  Member divided{other, other, 4, DType::f32};
  communicator->wait(
      communicator->start({kAllReduce, {&divided, 1}, {Reduction::sum, 1, 2}}));
  EXPECT_THAT(streams->log(), ElementsAre("compute: copy", "compute: divide"));
  EXPECT_EQ(other[3], 4);
  EXPECT_TRUE(script->calls.empty());
  EXPECT_EQ(script->configs.size(), 0u);
}

TEST_F(NcclTest, EventsAreUsedAgain) {
  connect(0, 2);
  {
    auto communicator = world("world");
    float shard[4] = {}, full[8];
    Member member{shard, full, sizeof(shard)};
    for (int step = 0; step < 200; ++step)
      communicator->wait(communicator->start({kGather, {&member, 1}}));
    EXPECT_LE(streams->liveEvents(), 4u);
    // In whatever order they are waited for.
    std::vector<Communicator::Ticket> tickets;
    for (int i = 0; i < 10; ++i)
      tickets.push_back(communicator->start({kGather, {&member, 1}}));
    for (auto ticket = tickets.rbegin(); ticket != tickets.rend(); ++ticket)
      communicator->wait(*ticket);
    EXPECT_THROW(communicator->wait(tickets[3]), std::logic_error);
    EXPECT_LE(streams->liveEvents(), 22u);
  }
  EXPECT_EQ(streams->liveEvents(), 0u);
  EXPECT_EQ(streams->liveStreams(), 1u); // compute
  EXPECT_EQ(script->destroyed, 1);
  EXPECT_EQ(script->aborted, 0);
}

TEST_F(NcclTest, WhatIsCapturedIsNotAskedAbout) {
  connect(0, 2, std::chrono::milliseconds(200));
  auto communicator = world("world");
  float shard[4] = {}, full[8];
  Member member{shard, full, sizeof(shard)};
  communicator->wait(communicator->start({kGather, {&member, 1}}));
  streams->beginCapture();
  for (int i = 0; i < 5; ++i) {
    auto ticket = communicator->start({kGather, {&member, 1}});
    // The watching thread comes by, far behind the deadline of a capture that
    // takes its time.
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    communicator->wait(ticket);
  }
  streams->endCapture();
  fabric->check();
  communicator->wait(communicator->start({kGather, {&member, 1}}));
  EXPECT_EQ(script->calls.size(), 7u);
  EXPECT_LE(streams->liveEvents(), 4u);
}

TEST_F(NcclTest, ACaptureThatFailedLeavesNothingBehind) {
  connect(0, 2);
  auto communicator = world("world");
  float shard[4] = {}, full[8];
  Member member{shard, full, sizeof(shard)};
  streams->beginCapture();
  auto lost = communicator->start({kGather, {&member, 1}});
  communicator->start({kGather, {&member, 1}});
  EXPECT_THAT(errorOf(ErrorId::DeviceFailed, [&] { streams->endCapture(); }),
              HasSubstr("unjoined work on stream 'world'"));
  communicator->abandon();
  EXPECT_THROW(communicator->wait(lost), std::logic_error);
  communicator->wait(communicator->start({kGather, {&member, 1}}));
  EXPECT_LE(streams->liveEvents(), 4u);
  communicator.reset();
  EXPECT_EQ(script->destroyed, 1);
  EXPECT_EQ(peers->failure(), std::nullopt);
}

TEST_F(NcclTest, CallsBlockIfAsked) {
  setenv("FSDP_NCCL_BLOCKING", "1", 1);
  connect(0, 2);
  auto communicator = world("gather");
  ASSERT_EQ(script->configs.size(), 1u);
  EXPECT_EQ(script->configs[0].blocking, 1);
  EXPECT_THAT(notes, testing::Contains(HasSubstr("FSDP_NCCL_BLOCKING")));
}

TEST_F(NcclTest, SaysOnceWhichBucketsAreSlow) {
  connect(0, 2);
  auto communicator = world("world");
  const size_t bytes = size_t(1) << 20;
  std::vector<char> memory(4 * bytes);
  char *base = memory.data();
  base += -reinterpret_cast<uintptr_t>(base) % 16;
  auto gather = [&](size_t offset, size_t size, std::string_view bucket) {
    Member member{base + offset, base + bytes + offset, size};
    communicator->wait(communicator->start(
        {{CollectiveKind::all_gather, bucket, 0}, {&member, 1}}));
  };
  gather(0, bytes, "aligned");
  gather(4, 1000, "small");
  auto slow = [&] {
    return std::ranges::count_if(notes, [](const std::string &note) {
      return note.find("is slow") != std::string::npos;
    });
  };
  EXPECT_EQ(slow(), 0);
  for (int step = 0; step < 3; ++step) {
    gather(0, bytes - 2, "odd size");
    gather(4, bytes, "odd address");
  }
  EXPECT_EQ(slow(), 2);
  EXPECT_THAT(notes, testing::Contains(testing::AllOf(
                         HasSubstr("all_gather of bucket 'odd size' is slow"),
                         HasSubstr("1048574 bytes"))));
}

} // namespace
