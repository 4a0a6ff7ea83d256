//===- LengthPools.cpp - Rows of like length together ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/data/LengthPools.h"

#include "runtime/data/Permutation.h"

#include <algorithm>
#include <numeric>
#include <utility>

using namespace fsdp;

LengthPools::LengthPools(const RowLengths &lengths, const plan::DataT &data)
    : lengths(lengths), pool(data.length_pool), group(data.length_group),
      seed(data.seed), shuffle(data.shuffle) {}

std::vector<uint64_t> LengthPools::sort(uint64_t epoch, uint64_t number) const {
  const uint64_t all = lengths.rows(), begin = number * pool;
  std::vector<uint64_t> rows(std::min(pool, all - begin));
  std::iota(rows.begin(), rows.end(), begin);
  if (shuffle) {
    Permutation permutation(all, seed, epoch);
    for (uint64_t &row : rows)
      row = permutation(row);
  }
  std::vector<uint64_t> tokens = lengths.of(rows);
  std::vector<size_t> places(rows.size());
  std::iota(places.begin(), places.end(), size_t{0});
  std::ranges::stable_sort(places, {}, [&](size_t i) { return tokens[i]; });
  const uint64_t groups = rows.size() / group;
  std::vector<uint64_t> sorted;
  sorted.reserve(rows.size());
  if (shuffle && groups != 0) {
    const uint64_t pools = (all + pool - 1) / pool;
    Permutation order(groups, seed, epoch * pools + number,
                      philox::Domain::Groups);
    for (uint64_t i = 0; i < groups; ++i)
      for (uint64_t j = 0; j < group; ++j)
        sorted.push_back(rows[places[order(i) * group + j]]);
  }
  // What fills no group at the end of an epoch, or all of it.
  for (size_t i = sorted.size(); i < rows.size(); ++i)
    sorted.push_back(rows[places[i]]);
  return sorted;
}

uint64_t LengthPools::at(uint64_t epoch, uint64_t number) const {
  std::lock_guard lock(mutex);
  auto isWanted = [&](const Pool &each) {
    return !each.rows.empty() && each.epoch == epoch &&
           each.number == number / pool;
  };
  if (!isWanted(kept[0])) {
    std::swap(kept[0], kept[1]);
    if (!isWanted(kept[0]))
      kept[0] = {epoch, number / pool, sort(epoch, number / pool)};
  }
  return kept[0].rows[number % pool];
}
