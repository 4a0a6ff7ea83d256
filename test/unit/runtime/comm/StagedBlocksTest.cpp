//===- StagedBlocksTest.cpp - Memory of messages is known before ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/Messages.h"
#include "runtime/comm/gloo/Transfer.h"

#include <gtest/gtest.h>

using namespace fsdp;
using plan::DType;

namespace {

constexpr int kRanks = 4;

struct Made {
  std::vector<uint64_t> taken; ///< bytes of blocks
  size_t messages;
};

/// What the back end makes of the transfer.
Made make(const TransferMembers &members) {
  Made made;
  std::vector<std::unique_ptr<std::byte[]>> blocks;
  Transfer transfer{members, Combination(plan::Reduction::sum, 1, 1), {}};
  auto allocate = [&](size_t bytes) {
    made.taken.push_back(bytes);
    return blocks.emplace_back(std::make_unique<std::byte[]>(bytes)).get();
  };
  made.messages =
      GlooTransfer::make(transfer, 1, kRanks, allocate).messages.size();
  return made;
}

/// Elements of float: some that are packed, some that are not, none, and odd
/// numbers.
const std::vector<std::vector<size_t>> kMembers = {
    {3},       {7, 5, 11}, {100000}, {100000, 3, 20000, 9}, {8191, 8192, 8193},
    {0, 3, 0}, {0}};

TEST(StagedBlocks, AndMessagesAreThoseOfTheBackEnd) {
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
    auto check = [&](CollectiveKind kind, const TransferMembers &members) {
      SCOPED_TRACE(getName(kind));
      Made made = make(members);
      EXPECT_EQ(made.taken, getStagedBlocks(kind, bytes, kRanks));
      EXPECT_EQ(made.messages, countMessages(kind, bytes));
    };
    check(CollectiveKind::allGather, gathered);
    check(CollectiveKind::reduceScatter, reduced);
    check(CollectiveKind::allReduce, summed);
    check(CollectiveKind::rotate, rotated);
  }
}

} // namespace
