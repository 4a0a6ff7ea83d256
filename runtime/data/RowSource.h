//===- RowSource.h - Where the inputs' rows come from -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_DATA_ROWSOURCE_H
#define FSDP_RUNTIME_DATA_ROWSOURCE_H

#include "plan/plan_generated.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace fsdp {

/// Rows of a source that have lengths of their own, in tokens. Any thread may
/// ask.
class RowLengths {
public:
  virtual ~RowLengths() = default;
  /// At least 1.
  virtual uint64_t rows() const = 0;
  /// Of these rows. Throws fsdp::Error (FileNotReadable).
  virtual std::vector<uint64_t> of(std::span<const uint64_t> rows) const = 0;
  /// The first of the longest rows, and its length.
  virtual std::pair<uint64_t, uint64_t> longest() const = 0;
  /// Of all lengths.
  virtual std::string hash() const = 0;
};

/// Rows for one input. Any thread may read.
class RowReader {
public:
  virtual ~RowReader() = default;
  /// At least 1.
  virtual uint64_t rows() const = 0;
  /// To how many tokens it pads a row; 0: rows have no lengths of their own.
  virtual uint64_t tokens() const { return 0; }
  /// Puts rows [first, first + count) to `to`, contiguous, in the input's
  /// element type. Throws fsdp::Error (FileNotReadable).
  virtual void read(uint64_t first, uint64_t count, std::byte *to) const = 0;
};

/// Files with rows for inputs.
class RowSource {
public:
  virtual ~RowSource() = default;
  /// What errors call it: "'data.safetensors'".
  virtual std::string describe() const = 0;
  /// The files.
  virtual std::vector<std::string> paths() const = 0;
  /// What it has rows for: inputs, or what should be some.
  virtual std::vector<std::string> names() const = 0;
  /// Whether an input's rows, which no file has, follow from what the files
  /// have.
  virtual bool makes(const plan::InputT &input) const {
    static_cast<void>(input);
    return false;
  }
  /// Null: all rows of an input are as long.
  virtual const RowLengths *lengths() const { return nullptr; }
  /// The rows for an input, which the source outlives. Null if it has none.
  /// Throws fsdp::Error if they do not fit: DataShape, DataType, DataPadding.
  virtual std::unique_ptr<RowReader> open(const plan::InputT &input) const = 0;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_DATA_ROWSOURCE_H
