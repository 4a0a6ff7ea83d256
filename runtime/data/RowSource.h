//===- RowSource.h - Where the inputs' rows come from -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_DATA_ROWSOURCE_H
#define FSDP_RUNTIME_DATA_ROWSOURCE_H

#include "plan/plan_generated.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace fsdp {

/// Rows for one input. Any thread may read.
class RowReader {
public:
  virtual ~RowReader() = default;
  /// At least 1.
  virtual uint64_t rows() const = 0;
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
  /// The rows for an input, which the source outlives. Null if it has none.
  /// Throws fsdp::Error if they do not fit: DataShape, DataType.
  virtual std::unique_ptr<RowReader> open(const plan::InputT &input) const = 0;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_DATA_ROWSOURCE_H
