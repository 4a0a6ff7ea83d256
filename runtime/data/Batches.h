//===- Batches.h - The rows of a program's inputs ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_DATA_BATCHES_H
#define FSDP_RUNTIME_DATA_BATCHES_H

#include "runtime/data/LabelCount.h"
#include "runtime/data/ReadAhead.h"
#include "runtime/data/RowOrder.h"
#include "runtime/data/RowSource.h"
#include "runtime/data/RunData.h"
#include "runtime/data/StepLengths.h"

#include <optional>

namespace fsdp {

/// Which of the rows that all ranks read together are this one's.
struct RankRows {
  uint64_t ranks = 1, position = 0; ///< of those that read different rows
  uint64_t batch = 1;               ///< rows of this rank's micro-batch
};

/// What the rows of a step decide beside its batches.
struct StepFacts {
  StepRows rows;
  /// Null, or the input whose labels are counted, at one of its shapes.
  const plan::InputT *labels = nullptr;
};

/// One rank's batches of the inputs that a source has rows for, read ahead.
class Batches {
public:
  using InputList = std::vector<const plan::InputT *>;

  /// `inputs` have bytes, and are the ones to be read, which `source` has rows
  /// for. An input whose first dim is not `rows.batch` reads as many of its own
  /// rows for each of these. Throws fsdp::Error: DataShape if inputs have rows
  /// for different numbers of batches, and as RowSource::open. `source`
  /// outlives it.
  Batches(const RowSource &source, const InputList &inputs, const RunData &data,
          RankRows rows)
      : Batches(source, std::vector(1, inputs), data, rows, {}) {}

  /// The same of several programs that take the same inputs for rows of other
  /// lengths: each step's batches are of the shortest one that holds its rows.
  /// Throws RowTooLong, too, and DataShape if programs differ otherwise.
  Batches(const RowSource &source, const std::vector<InputList> &programs,
          const RunData &data, RankRows rows, StepFacts facts);

  /// Bytes of each input of the program that `programOf` says, in their order,
  /// of the micro-batch whose first row
  /// of all ranks' stands at `firstRow` of the order. Valid until the next
  /// call. Throws fsdp::Error (FileNotReadable).
  const std::vector<std::span<const std::byte>> &get(uint64_t firstRow);

  /// Whether steps have programs of their own.
  bool isChoosing() const { return lengths.has_value(); }
  /// Which of the programs the step that reads that row runs. Throws
  /// fsdp::Error (FileNotReadable).
  size_t programOf(uint64_t firstRow) const {
    return lengths ? lengths->programOf(firstRow) : 0;
  }

  /// How many labels of all rows of the step that reads that row count; asked
  /// only where there are some to be counted.
  uint64_t countLabels(uint64_t firstRow) const { return labels->of(firstRow); }

  /// Which row of the source the `input`th one's row `row` is in that
  /// micro-batch.
  uint64_t rowOf(size_t input, uint64_t firstRow, uint64_t row) const;

  /// As RowOrder::stepsFrom.
  std::optional<uint64_t> stepsFrom(uint64_t firstRow, uint64_t stepRows) const;
  /// Rows of an epoch.
  uint64_t rows() const { return leading().reader->rows(); }
  /// Bytes of what is read ahead.
  uint64_t memory() const { return ahead->memory(); }

private:
  struct Part {
    std::unique_ptr<RowReader> reader;
    RowOrder order;
    uint64_t batch, rowBytes;
    uint64_t offset; ///< in the batch's bytes
  };

  /// Bytes of its batch. `counted` is the input of labels, if there is one.
  uint64_t open(const RowSource &source, const InputList &inputs,
                const RunData &data, const std::string &counted);
  void checkRows(const RowSource &source, const InputList &inputs,
                 const RunData &data);
  void chooseByLength(const RowSource &source,
                      const std::vector<InputList> &inputs, StepRows steps);
  void read(uint64_t firstRow, std::byte *to) const;
  uint64_t positionOf(const Part &part, uint64_t firstRow) const;
  const Part &leading() const { return programs.front()[lead]; }

  const RankRows rankRows;
  std::vector<std::vector<Part>> programs;
  size_t lead = 0; ///< the part whose rows are counted
  std::optional<RowOrder>
      common; ///< of all that do not begin again on their own
  std::optional<StepLengths> lengths; ///< absent: there is no choice
  std::optional<LabelCount> labels;
  std::vector<std::span<const std::byte>> current;
  std::optional<ReadAhead> ahead;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_DATA_BATCHES_H
