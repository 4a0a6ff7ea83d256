//===- RowOrderTest.cpp - In which order rows are read --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/data/RowOrder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

using namespace fsdp;

namespace {

plan::DataT shuffled(uint64_t epochs = 0) {
  plan::DataT data;
  data.shuffle = true;
  data.epochs = epochs;
  return data;
}

std::vector<uint64_t> read(const RowOrder &order, uint64_t first,
                           uint64_t count) {
  std::vector<uint64_t> rows;
  while (rows.size() < count) {
    RowOrder::Run run = order.at(first + rows.size(), count - rows.size());
    for (uint64_t i = 0; i < run.count; ++i)
      rows.push_back(run.first + i);
  }
  return rows;
}

TEST(RowOrder, GoesRoundTheFile) {
  RowOrder order(5);
  EXPECT_EQ(read(order, 3, 8), (std::vector<uint64_t>{3, 4, 0, 1, 2, 3, 4, 0}));
  EXPECT_EQ(order.at(3, 8).count, 2u);
  EXPECT_FALSE(order.isStrict());
  EXPECT_EQ(order.stepsFrom(0, 2), std::nullopt);
}

TEST(RowOrder, ShufflesEachEpochAnew) {
  RowOrder order(20, shuffled());
  std::vector<std::vector<uint64_t>> epochs;
  for (uint64_t epoch = 0; epoch < 3; ++epoch) {
    std::vector<uint64_t> rows = read(order, epoch * 20, 20);
    for (const auto &other : epochs)
      EXPECT_NE(rows, other);
    epochs.push_back(rows);
    std::sort(rows.begin(), rows.end());
    std::vector<uint64_t> numbers(20);
    std::iota(numbers.begin(), numbers.end(), 0);
    EXPECT_EQ(rows, numbers);
  }
}

/// Ranks read rank * B, … behind the position: together the one sequence,
/// whatever their number and the batch's size.
TEST(RowOrder, IsOneSequenceForAnyNumberOfRanks) {
  RowOrder order(17, shuffled());
  std::vector<uint64_t> expected = read(order, 0, 48);
  for (uint64_t ranks : {1, 2, 3, 4, 8})
    for (uint64_t batch : {1, 2, 3}) {
      if (48 % (ranks * batch) != 0)
        continue;
      std::vector<uint64_t> found;
      for (uint64_t first = 0; first < 48; first += ranks * batch)
        for (uint64_t rank = 0; rank < ranks; ++rank)
          for (uint64_t row : read(order, first + rank * batch, batch))
            found.push_back(row);
      EXPECT_EQ(found, expected) << ranks << " ranks, batch " << batch;
    }
}

TEST(RowOrder, EndsWithItsEpochs) {
  plan::DataT data = shuffled(3);
  RowOrder order(10, data);
  EXPECT_TRUE(order.isStrict());
  EXPECT_EQ(order.stepsFrom(0, 4), 7u); // of 30 rows
  EXPECT_EQ(order.stepsFrom(28, 4), 0u);
  EXPECT_EQ(order.stepsFrom(40, 4), 0u);
  data.drop_last = false;
  RowOrder filled(10, data);
  EXPECT_EQ(filled.stepsFrom(0, 4), 8u);
  EXPECT_EQ(filled.stepsFrom(0, 5), 6u);
  EXPECT_EQ(filled.stepsFrom(30, 4), 0u);
}

} // namespace
