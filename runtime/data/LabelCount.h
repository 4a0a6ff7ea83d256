//===- LabelCount.h - How many labels of a step count -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_DATA_LABELCOUNT_H
#define FSDP_RUNTIME_DATA_LABELCOUNT_H

#include "runtime/data/RowOrder.h"
#include "runtime/data/RowSource.h"
#include "runtime/data/StepLengths.h"

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

namespace fsdp {

/// A label that counts for nothing, as PyTorch's losses have it.
inline constexpr int64_t kIgnoredLabel = -100;

/// The input of labels, by its name in the data table or by that which models
/// have for it.
inline std::string getLabelsInput(const plan::DataT &data) {
  return data.labels.empty() ? "labels" : data.labels;
}

/// Counts the labels of all rows of a step, whoever computes with them. Any
/// thread may ask.
class LabelCount {
public:
  /// `labels` is the input, of type i64 or i32 with rows along its first dim.
  /// `shifts`: a row's first label, along the second dim, does not count.
  /// Throws fsdp::Error (DataType).
  LabelCount(const plan::InputT &labels, std::unique_ptr<RowReader> reader,
             RowOrder order, StepRows steps, bool shifts);

  /// Of the step that reads row `row` of the order. Throws fsdp::Error
  /// (FileNotReadable).
  uint64_t of(uint64_t row) const;

private:
  uint64_t count(uint64_t first) const;

  const std::unique_ptr<RowReader> reader;
  const RowOrder order;
  const StepRows steps;
  const bool isWide, shifts; ///< of i64; see above
  uint64_t perRow = 0;       ///< labels
  mutable std::mutex mutex;
  mutable bool isKnown = false;
  mutable uint64_t keptFirst = 0, kept = 0;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_DATA_LABELCOUNT_H
