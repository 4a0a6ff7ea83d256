//===- StagedBlocksTest.cpp - Memory of messages is known before ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/Messages.h"
#include "runtime/comm/gloo/Transfer.h"

#include <gtest/gtest.h>

using namespace fsdp;
using plan::DType;

namespace {

constexpr int kRanks = 4;

/// What the back end takes for the transfer.
std::vector<uint64_t> takenBy(const TransferMembers &members) {
  std::vector<uint64_t> taken;
  std::vector<std::unique_ptr<std::byte[]>> blocks;
  Transfer transfer{members, Combination(plan::Reduction::sum, 1, 1), {}};
  GlooTransfer::make(transfer, 1, kRanks, [&](size_t bytes) {
    taken.push_back(bytes);
    return blocks.emplace_back(std::make_unique<std::byte[]>(bytes)).get();
  });
  return taken;
}

/// Elements of float: some that are packed, some that are not, none, and odd
/// numbers.
const std::vector<std::vector<size_t>> kMembers = {
    {3},       {7, 5, 11}, {100000}, {100000, 3, 20000, 9}, {8191, 8192, 8193},
    {0, 3, 0}, {0}};

TEST(StagedBlocks, AreThoseThatTheBackEndTakes) {
  for (const std::vector<size_t> &elements : kMembers) {
    std::vector<uint64_t> bytes;
    std::vector<std::vector<float>> shards, fulls;
    std::vector<GatherMember> gathered;
    std::vector<ReduceMember> reduced;
    std::vector<AllReduceMember> summed;
    std::vector<RotateMember> rotated;
    for (size_t count : elements) {
      bytes.push_back(count * sizeof(float));
      std::vector<float> &shard = shards.emplace_back(count);
      std::vector<float> &full = fulls.emplace_back(count * kRanks);
      gathered.push_back({shard.data(), full.data(), count * sizeof(float)});
      reduced.push_back({full.data(), shard.data(), count, DType::f32});
      summed.push_back({shard.data(), count, DType::f32});
      rotated.push_back({shard.data(), full.data(), count * sizeof(float)});
    }
    auto known = [&](CollectiveKind kind) {
      return getStagedBlocks(kind, bytes, kRanks);
    };
    EXPECT_EQ(takenBy(gathered), known(CollectiveKind::allGather));
    EXPECT_EQ(takenBy(reduced), known(CollectiveKind::reduceScatter));
    EXPECT_EQ(takenBy(summed), known(CollectiveKind::allReduce));
    EXPECT_EQ(takenBy(rotated), known(CollectiveKind::rotate));
  }
}

} // namespace
