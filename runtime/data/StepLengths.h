//===- StepLengths.h - Which program a step of short rows runs --*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_DATA_STEPLENGTHS_H
#define FSDP_RUNTIME_DATA_STEPLENGTHS_H

#include "runtime/data/RowOrder.h"
#include "runtime/data/RowSource.h"

#include <array>
#include <cstdint>
#include <mutex>
#include <vector>

namespace fsdp {

/// Steps as rows of the order, which all ranks and micro-batches read together.
struct StepRows {
  uint64_t first = 0; ///< of any step at whose end or beginning others begin
  uint64_t count = 1; ///< of a step

  /// The first row of the step that `row` is in, which is not before `first`.
  uint64_t beginOf(uint64_t row) const {
    return first + (row - first) / count * count;
  }
};

/// The shortest of several programs that holds the longest row of a step: one
/// for all its ranks and micro-batches, so that ranks meet in their transfers
/// and the choice depends on the step's rows alone, not on who computes which.
/// Any thread may ask.
class StepLengths {
public:
  /// `tokens`: of a row of each program, each another number, of which one
  /// holds the longest row. `lengths` outlives it.
  StepLengths(const RowLengths &lengths, RowOrder order,
              std::vector<uint64_t> tokens, StepRows steps);

  /// The number of the program of the step that reads row `row` of the order.
  /// Throws fsdp::Error (FileNotReadable).
  size_t programOf(uint64_t row) const;

private:
  struct Step {
    uint64_t first = 0;
    size_t program = 0;
    bool isKnown = false;
  };
  size_t choose(uint64_t first) const;

  const RowLengths &lengths;
  const RowOrder order;
  const std::vector<uint64_t> tokens;
  const StepRows steps;
  mutable std::mutex mutex;
  mutable std::array<Step, 2> kept; ///< of who reads ahead, and who computes
};

} // namespace fsdp

#endif // FSDP_RUNTIME_DATA_STEPLENGTHS_H
