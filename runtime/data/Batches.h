//===- Batches.h - The rows of a program's inputs ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_DATA_BATCHES_H
#define FSDP_RUNTIME_DATA_BATCHES_H

#include "runtime/data/ReadAhead.h"
#include "runtime/data/RowOrder.h"
#include "runtime/data/RowSource.h"
#include "runtime/data/RunData.h"

#include <optional>

namespace fsdp {

/// Which of the rows that all ranks read together are this one's.
struct RankRows {
  uint64_t ranks = 1, position = 0; ///< of those that read different rows
  uint64_t batch = 1;               ///< rows of this rank's micro-batch
};

/// One rank's batches of the inputs that a source has rows for, read ahead.
class Batches {
public:
  /// `inputs` have bytes, and are the ones to be read, which `source` has rows
  /// for. An input whose first dim is not `rows.batch` reads as many of its own
  /// rows for each of these. Throws fsdp::Error: DataShape if inputs have rows
  /// for different numbers of batches, and as RowSource::open. `source`
  /// outlives it.
  Batches(const RowSource &source,
          const std::vector<const plan::InputT *> &inputs, const RunData &data,
          RankRows rows);

  /// Bytes of each input, in their order, of the micro-batch whose first row
  /// of all ranks' stands at `firstRow` of the order. Valid until the next
  /// call. Throws fsdp::Error (FileNotReadable).
  const std::vector<std::span<const std::byte>> &get(uint64_t firstRow);

  /// Which row of the source the `input`th one's row `row` is in that
  /// micro-batch.
  uint64_t rowOf(size_t input, uint64_t firstRow, uint64_t row) const;

  /// As RowOrder::stepsFrom.
  std::optional<uint64_t> stepsFrom(uint64_t firstRow, uint64_t stepRows) const;
  /// Rows of an epoch.
  uint64_t rows() const { return parts[lead].reader->rows(); }
  /// Bytes of what is read ahead.
  uint64_t memory() const { return ahead->memory(); }

private:
  struct Part {
    std::unique_ptr<RowReader> reader;
    RowOrder order;
    uint64_t batch, rowBytes;
    uint64_t offset; ///< in the batch's bytes
  };

  void checkRows(const RowSource &source,
                 const std::vector<const plan::InputT *> &inputs,
                 const RunData &data);
  void read(uint64_t firstRow, std::byte *to) const;
  uint64_t positionOf(const Part &part, uint64_t firstRow) const;

  const RankRows rankRows;
  std::vector<Part> parts;
  size_t lead = 0; ///< the part whose rows are counted
  std::vector<std::span<const std::byte>> current;
  std::optional<ReadAhead> ahead;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_DATA_BATCHES_H
