//===- LengthOrder.cpp - Rows of like length, for a program ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "python/native/LengthOrder.h"

#include "runtime/data/LengthPools.h"

#include <algorithm>
#include <string>

using namespace fsdp;

namespace {

/// Lengths that a caller has.
class ListedLengths final : public RowLengths {
public:
  explicit ListedLengths(const std::vector<uint64_t> &all) : all(all) {}

  uint64_t rows() const override { return all.size(); }
  std::vector<uint64_t> of(std::span<const uint64_t> rows) const override {
    std::vector<uint64_t> lengths;
    for (uint64_t row : rows)
      lengths.push_back(all[row]);
    return lengths;
  }
  std::pair<uint64_t, uint64_t> longest() const override {
    auto found = std::ranges::max_element(all);
    return {static_cast<uint64_t>(found - all.begin()), *found};
  }
  std::string hash() const override { return {}; }

private:
  const std::vector<uint64_t> &all;
};

} // namespace

std::vector<uint64_t> fsdp::orderByLength(const std::vector<uint64_t> &lengths,
                                          const plan::DataT &data,
                                          uint64_t epoch) {
  ListedLengths listed(lengths);
  LengthPools pools(listed, data);
  std::vector<uint64_t> order;
  for (uint64_t number = 0; number < lengths.size(); ++number)
    order.push_back(pools.at(epoch, number));
  return order;
}
