//===- FakeTest.cpp - One rank without its peers --------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/comm/fake/Fake.h"
#include "runtime/comm/Counted.h"

#include <gtest/gtest.h>

#include <numeric>

using namespace fsdp;
using plan::DType;
using plan::Reduction;

namespace {

GroupRanks firstRanks(int count) {
  GroupRanks group{"world", std::vector<int>(count)};
  std::iota(group.ranks.begin(), group.ranks.end(), 0);
  return group;
}

TEST(Fake, PlaysItsPartAndCounts) {
  FakeFabric fabric(2, 64);
  auto group = std::make_unique<CountedCommunicator>(
      fabric.createCommunicator(firstRanks(64)));
  EXPECT_EQ(group->rank(), 2);
  EXPECT_EQ(group->size(), 64);

  float shard[3] = {1, 2, 3};
  std::vector<float> full(3 * 64);
  Member gather{shard, full.data(), sizeof(shard)};
  for (int step = 0; step < 2; ++step)
    group->wait(group->start(
        {{CollectiveKind::all_gather, "layers.0", 0}, {&gather, 1}}));
  for (size_t i = 0; i < full.size(); ++i)
    EXPECT_EQ(full[i], shard[i % 3]);

  std::iota(full.begin(), full.end(), 0.0f);
  Member reduce{full.data(), shard, 3, DType::f32};
  group->wait(group->start({{CollectiveKind::reduce_scatter, "layers.0", 0},
                            {&reduce, 1},
                            Reduction::avg}));
  EXPECT_EQ(shard[0], 6);
  Member all{shard, shard, 3, DType::f32};
  group->wait(group->start({{.kind = CollectiveKind::all_reduce,
                             .bucket = "metrics",
                             .purpose = plan::Purpose::metric},
                            {&all, 1},
                            Reduction::sum}));
  EXPECT_EQ(shard[0], 6 * 64);

  float passed[3] = {};
  Member rotate{shard, passed, sizeof(shard)};
  group->wait(
      group->start({{CollectiveKind::rotate, "layers.0", 0}, {&rotate, 1}}));
  EXPECT_EQ(passed[0], 6 * 64);

  std::vector<float> given(2 * 64), got(2 * 64);
  std::iota(given.begin(), given.end(), 0.0f);
  Member exchange{given.data(), got.data(), 2 * sizeof(float)};
  group->wait(group->start(
      {{CollectiveKind::all_to_all, "layers.0", 0}, {&exchange, 1}}));
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_EQ(got[i], given[4 + i % 2]);

  const auto &traffic = group->traffic();
  ASSERT_EQ(traffic.size(), 5u);
  EXPECT_EQ(traffic.at("all_to_all").bytes, 64u * 8);
  EXPECT_EQ(traffic.at("rotate").bytes, 12u);
  EXPECT_EQ(traffic.at("all_gather").calls, 2u);
  EXPECT_EQ(traffic.at("all_gather").bytes, 2u * 64 * 12);
  EXPECT_EQ(traffic.at("reduce_scatter").bytes, 64u * 12);
  EXPECT_EQ(traffic.at("metrics").calls, 1u);
  EXPECT_EQ(traffic.at("metrics").bytes, 12u);
}

TEST(Fake, ExchangesItsOwnValue) {
  FakeFabric fabric(0, 3);
  EXPECT_EQ(fabric.exchange("key", "x"),
            (std::vector<std::string>{"x", "x", "x"}));
}

} // namespace
