//===- CollectiveModelTest.cpp - Seconds of transfers, against NCCL's -----===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "simulate/CollectiveModel.h"

#include <gtest/gtest.h>

using namespace fsdp;

namespace {

struct Measured {
  CollectiveKind kind;
  uint32_t ranks;
  double mebibytes;
  double microseconds;
};

/// XLA's table of NCCL on one node of eight Hopper GPUs
/// (collective_interpolator_data.h, at 18c005b): bytes of the whole tensor.
constexpr Measured kNccl[] = {
    {CollectiveKind::all_gather, 8, 16, 82.2},
    {CollectiveKind::all_gather, 8, 32, 129.4},
    {CollectiveKind::all_gather, 8, 64, 213.6},
    {CollectiveKind::all_gather, 8, 128, 390.2},
    {CollectiveKind::all_gather, 8, 2048, 5343.4},
    {CollectiveKind::all_gather, 4, 16, 70.0},
    {CollectiveKind::all_gather, 4, 32, 113.3},
    {CollectiveKind::all_gather, 4, 64, 195.8},
    {CollectiveKind::all_gather, 4, 128, 350.1},
    {CollectiveKind::all_gather, 4, 2048, 4846.6},
    {CollectiveKind::all_gather, 2, 16, 60.4},
    {CollectiveKind::all_gather, 2, 32, 96.4},
    {CollectiveKind::all_gather, 2, 64, 161.1},
    {CollectiveKind::all_gather, 2, 128, 295.4},
    {CollectiveKind::all_gather, 2, 2048, 3904.8},
    {CollectiveKind::reduce_scatter, 8, 16, 86.6},
    {CollectiveKind::reduce_scatter, 8, 32, 133.5},
    {CollectiveKind::reduce_scatter, 8, 64, 218.6},
    {CollectiveKind::reduce_scatter, 8, 128, 411.5},
    {CollectiveKind::reduce_scatter, 8, 2048, 5710.0},
    {CollectiveKind::reduce_scatter, 4, 16, 69.8},
    {CollectiveKind::reduce_scatter, 4, 32, 123.6},
    {CollectiveKind::reduce_scatter, 4, 64, 224.4},
    {CollectiveKind::reduce_scatter, 4, 128, 404.4},
    {CollectiveKind::reduce_scatter, 4, 1024, 2892.4},
    {CollectiveKind::reduce_scatter, 4, 2048, 5604.3},
    {CollectiveKind::reduce_scatter, 2, 16, 68.0},
    {CollectiveKind::reduce_scatter, 2, 32, 126.1},
    {CollectiveKind::reduce_scatter, 2, 64, 220.9},
    {CollectiveKind::reduce_scatter, 2, 128, 406.3},
    {CollectiveKind::reduce_scatter, 2, 1024, 2756.3},
    {CollectiveKind::reduce_scatter, 2, 2048, 5232.3}};

plan::GroupT groupOf(uint32_t size, uint32_t stride = 1) {
  plan::GroupT group;
  group.size = size;
  group.stride = stride;
  return group;
}

TEST(CollectiveModel, meetsWhatWasMeasuredOfNccl) {
  Cluster cluster = Cluster::load("h100x8");
  cluster.network.measured.clear();
  CollectiveModel model(cluster);
  for (const Measured &each : kNccl) {
    double found = model
                       .collective(each.kind, each.mebibytes * 1048576,
                                   groupOf(each.ranks))
                       .seconds;
    EXPECT_NEAR(found / (each.microseconds * 1e-6), 1, 0.15)
        << getName(each.kind) << " of " << each.mebibytes << " MiB by "
        << each.ranks;
  }
}

TEST(CollectiveModel, reachesWhatNcclTestsReport) {
  // 16 GiB on eight H200s (ml-engineering, NCCL 2.27.7): bus bandwidths.
  Cluster cluster = Cluster::load("h200x8");
  CollectiveModel model(cluster);
  double bytes = 16.0 * (1 << 30);
  auto bus = [&](CollectiveKind kind, double rounds) {
    return rounds * bytes * 7 / 8 /
           model.collective(kind, bytes, groupOf(8)).seconds;
  };
  EXPECT_NEAR(bus(CollectiveKind::all_gather, 1) / 361.4e9, 1, 0.15);
  EXPECT_NEAR(bus(CollectiveKind::reduce_scatter, 1) / 362.9e9, 1, 0.15);
}

/// all_reduce_bench.py of ml-engineering on four nodes of eight B200s: bus
/// bandwidths in GB/s.
TEST(CollectiveModel, meetsFourNodesOfB200sAtAllSizes) {
  Cluster cluster = Cluster::load("b200x8");
  CollectiveModel model(cluster);
  const std::pair<double, double> bus[] = {{1 << 20, 5.37},
                                           {16 << 20, 64.43},
                                           {128 << 20, 197.94},
                                           {1 << 30, 361.99}};
  for (auto [bytes, gigabytes] : bus) {
    double seconds =
        model.collective(CollectiveKind::all_reduce, bytes, groupOf(32))
            .seconds;
    EXPECT_NEAR(2 * bytes * 31 / 32 / seconds / 1e9 / gigabytes, 1, 0.02)
        << bytes;
  }
}

TEST(CollectiveModel, saysHowGroupsLieOnNodes) {
  GroupShape shard = getShape(groupOf(16), 8);
  EXPECT_EQ(shard.nodes, 2);
  EXPECT_EQ(shard.perNode, 8);
  // Replicas of eight shards: one rank of each node.
  GroupShape replicas = getShape(groupOf(4, 8), 8);
  EXPECT_EQ(replicas.nodes, 4);
  EXPECT_EQ(replicas.perNode, 1);
  GroupShape few = getShape(groupOf(4), 8);
  EXPECT_EQ(few.nodes, 1);
  EXPECT_EQ(few.perNode, 4);
}

TEST(CollectiveModel, isSlowerOverNodesAndWithMoreBytes) {
  Cluster cluster = Cluster::load("h100x8");
  CollectiveModel model(cluster);
  for (CollectiveKind kind :
       {CollectiveKind::all_gather, CollectiveKind::reduce_scatter,
        CollectiveKind::all_reduce, CollectiveKind::all_to_all}) {
    double before = 0;
    for (double bytes = 1024; bytes < 8e9; bytes *= 1.5) {
      double seconds = model.collective(kind, bytes, groupOf(64)).seconds;
      EXPECT_GE(seconds, before) << bytes;
      before = seconds;
    }
    EXPECT_GT(model.collective(kind, 1e9, groupOf(16)).seconds,
              model.collective(kind, 1e9, groupOf(8)).seconds);
  }
}

/// A ring brings a byte to another node once, an exchange once for each rank.
TEST(CollectiveModel, exchangesHalfTheBytesFasterWhereAdaptersAreNotShared) {
  Cluster cluster = Cluster::load("h100x8");
  CollectiveModel model(cluster);
  auto ratio = [&](const plan::GroupT &group) {
    double bytes = 1 << 30;
    return model.collective(CollectiveKind::all_to_all, bytes / 2, group)
               .seconds /
           model.collective(CollectiveKind::reduce_scatter, bytes, group)
               .seconds;
  };
  EXPECT_NEAR(ratio(groupOf(8)), 0.5, 0.1);
  EXPECT_NEAR(ratio(groupOf(4, 8)), 0.5, 0.1);
  EXPECT_GT(ratio(groupOf(16)), 1.5);
  EXPECT_GT(ratio(groupOf(64)), 2.5);
}

TEST(CollectiveModel, takesNothingOfOneRank) {
  Cluster cluster = Cluster::load("h100x8");
  CollectiveModel model(cluster);
  EXPECT_EQ(
      model.collective(CollectiveKind::all_gather, 1e9, groupOf(1)).seconds, 0);
}

TEST(CollectiveModel, prefersWhatWasMeasuredThere) {
  Cluster cluster = Cluster::load("h100x8");
  cluster.network.measured = {
      {CollectiveKind::all_gather, 1, 8, Curve({{1e6, 1e-3}, {2e6, 3e-3}})}};
  CollectiveModel model(cluster);
  EXPECT_DOUBLE_EQ(
      model.collective(CollectiveKind::all_gather, 1.5e6, groupOf(8)).seconds,
      2e-3);
  EXPECT_LT(
      model.collective(CollectiveKind::all_gather, 1.5e6, groupOf(4)).seconds,
      1e-3);
}

TEST(CollectiveModel, copiesAtTheRateOfTheBus) {
  Cluster cluster = Cluster::load("h100x8");
  CollectiveModel model(cluster);
  TransferCost cost = model.copy(/*toHost=*/true, 55e9, 1);
  EXPECT_NEAR(cost.seconds, 55e9 / cluster.host.download + cluster.host.copy,
              1e-9);
  EXPECT_EQ(cost.link, 0);
}

} // namespace
