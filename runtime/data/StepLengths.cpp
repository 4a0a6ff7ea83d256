//===- StepLengths.cpp - Which program a step of short rows runs ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/data/StepLengths.h"

#include <algorithm>
#include <limits>
#include <utility>

using namespace fsdp;

StepLengths::StepLengths(const RowLengths &lengths, RowOrder order,
                         std::vector<uint64_t> tokens, StepRows steps)
    : lengths(lengths), order(std::move(order)), tokens(std::move(tokens)),
      steps(steps) {}

size_t StepLengths::choose(uint64_t first) const {
  std::vector<uint64_t> rows;
  while (rows.size() < steps.count) {
    RowOrder::Run run =
        order.at(first + rows.size(), steps.count - rows.size());
    for (uint64_t i = 0; i < run.count; ++i)
      rows.push_back(run.first + i);
  }
  uint64_t longest = std::ranges::max(lengths.of(rows));
  size_t best = 0;
  uint64_t least = std::numeric_limits<uint64_t>::max();
  for (size_t i = 0; i < tokens.size(); ++i)
    if (tokens[i] >= longest && tokens[i] < least) {
      least = tokens[i];
      best = i;
    }
  return best;
}

size_t StepLengths::programOf(uint64_t row) const {
  const uint64_t first = steps.beginOf(row);
  std::lock_guard lock(mutex);
  auto isWanted = [&](const Step &each) {
    return each.isKnown && each.first == first;
  };
  if (!isWanted(kept[0])) {
    std::swap(kept[0], kept[1]);
    if (!isWanted(kept[0]))
      kept[0] = {first, choose(first), true};
  }
  return kept[0].program;
}
