//===- RowOrder.cpp - In which order rows are read ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/data/RowOrder.h"

#include "runtime/data/Permutation.h"

#include <algorithm>

using namespace fsdp;

RowOrder::RowOrder(uint64_t rows, const plan::DataT &data,
                   const RowLengths *lengths)
    : rows(rows), shuffle(data.shuffle), seed(data.seed), epochs(data.epochs),
      dropLast(data.drop_last) {
  if (lengths && data.length_pool != 0)
    pools = std::make_shared<LengthPools>(*lengths, data);
}

RowOrder::Run RowOrder::at(uint64_t position, uint64_t most) const {
  uint64_t epoch = position / rows, number = position % rows;
  if (pools)
    return {pools->at(epoch, number), 1};
  if (shuffle)
    return {Permutation(rows, seed, epoch)(number), 1};
  return {number, std::min(most, rows - number)};
}

std::optional<uint64_t> RowOrder::stepsFrom(uint64_t position,
                                            uint64_t stepRows) const {
  if (epochs == 0)
    return std::nullopt;
  uint64_t end;
  if (__builtin_mul_overflow(epochs, rows, &end))
    return std::nullopt;
  uint64_t left = end > position ? end - position : 0;
  return left / stepRows + (!dropLast && left % stepRows != 0);
}
