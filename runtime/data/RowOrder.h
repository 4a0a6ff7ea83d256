//===- RowOrder.h - In which order rows are read ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_DATA_ROWORDER_H
#define FSDP_RUNTIME_DATA_ROWORDER_H

#include "plan/plan_generated.h"
#include "runtime/data/LengthPools.h"
#include "runtime/data/RowSource.h"

#include <cstdint>
#include <memory>
#include <optional>

namespace fsdp {

/// The one sequence of rows that all ranks of a run read together: epoch after
/// epoch, each all rows once, without a gap between them. It depends neither on
/// the number of ranks nor on the batch size; whoever knows a position in it
/// can read on from there.
class RowOrder {
public:
  /// In the file's order, again and again.
  explicit RowOrder(uint64_t rows) : rows(rows) {}
  /// As `data` says: shuffled, or bounded, and by length where rows have
  /// `lengths`, which may be null and outlive it.
  RowOrder(uint64_t rows, const plan::DataT &data,
           const RowLengths *lengths = nullptr);

  uint64_t rowsOfEpoch() const { return rows; }

  /// Rows `first`, `first` + 1, … of the source.
  struct Run {
    uint64_t first, count;
  };
  /// What stands at `position`, and as many behind it, up to `most`, as follow
  /// one another in the source, too. Goes on past the last epoch.
  Run at(uint64_t position, uint64_t most) const;

  /// Steps of `stepRows` rows that are left from `position` on; absent: there
  /// is no end. Rows at the end that do not fill a step are dropped, or make a
  /// step with rows of another epoch.
  std::optional<uint64_t> stepsFrom(uint64_t position, uint64_t stepRows) const;

  /// Whether it matters that all inputs have as many rows.
  bool isStrict() const { return shuffle || epochs != 0 || pools; }

private:
  uint64_t rows;
  bool shuffle = false;
  uint64_t seed = 0, epochs = 0; ///< 0: without end
  bool dropLast = true;
  std::shared_ptr<const LengthPools> pools; ///< null: no row has its own length
};

} // namespace fsdp

#endif // FSDP_RUNTIME_DATA_ROWORDER_H
