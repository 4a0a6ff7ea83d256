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
Made make(CollectiveKind kind, std::span<const Member> members) {
  Made made;
  std::vector<std::unique_ptr<std::byte[]>> blocks;
  Transfer transfer{{kind}, members};
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
    for (size_t count : elements) {
      bytes.push_back(count * sizeof(float));
      shards.emplace_back(count);
      fulls.emplace_back(count * kRanks);
    }
    for (CollectiveKind kind : plan::EnumValuesCollectiveKind()) {
      SCOPED_TRACE(getName(kind));
      const CollectiveFacts &facts = getFacts(kind);
      Members members;
      for (size_t i = 0; i < elements.size(); ++i) {
        float *given = (facts.whole == Whole::got ? shards : fulls)[i].data();
        float *got = (facts.whole == Whole::given ? shards : fulls)[i].data();
        if (facts.whole == Whole::neither && !facts.isInPlace)
          given = shards[i].data();
        members.push_back({given, got, elements[i], plan::DType::f32});
      }
      Made made = make(kind, members);
      EXPECT_EQ(made.taken, getStagedBlocks(kind, bytes, kRanks));
      EXPECT_EQ(made.messages, countMessages(kind, bytes));
    }
  }
}

} // namespace
