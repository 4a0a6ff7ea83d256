//===- LengthPools.h - Rows of like length together -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_DATA_LENGTHPOOLS_H
#define FSDP_RUNTIME_DATA_LENGTHPOOLS_H

#include "plan/plan_generated.h"
#include "runtime/data/RowSource.h"

#include <array>
#include <cstdint>
#include <mutex>
#include <vector>

namespace fsdp {

/// An order of the rows of an epoch in which rows of like length follow one
/// another: the order that there would be without is cut into pools of
/// `length_pool` rows, each pool is sorted by length, and its groups of
/// `length_group` rows are put in a random order where rows are shuffled. A
/// function of the lengths and of `data` alone. Any thread may ask.
class LengthPools {
public:
  /// `data.length_pool` is above 0 and a multiple of `data.length_group`.
  /// `lengths` outlives it.
  LengthPools(const RowLengths &lengths, const plan::DataT &data);

  /// The row that is the `number`th of an epoch. Throws fsdp::Error
  /// (FileNotReadable).
  uint64_t at(uint64_t epoch, uint64_t number) const;

private:
  struct Pool {
    uint64_t epoch = 0, number = 0;
    std::vector<uint64_t> rows; ///< empty: there is none
  };
  std::vector<uint64_t> sort(uint64_t epoch, uint64_t pool) const;

  const RowLengths &lengths;
  const uint64_t pool, group, seed;
  const bool shuffle;
  mutable std::mutex mutex;
  /// Those asked for last: who reads ahead is in one, who computes in another.
  mutable std::array<Pool, 2> kept;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_DATA_LENGTHPOOLS_H
