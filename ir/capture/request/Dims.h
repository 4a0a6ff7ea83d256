//===- Dims.h - Sizes of dynamic dimensions ---------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_IR_CAPTURE_REQUEST_DIMS_H
#define FSDP_IR_CAPTURE_REQUEST_DIMS_H

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace fsdp {

/// Sizes for one dynamic dimension (--dim=s17=1024,2048).
struct DimValues {
  std::string name; ///< a symbol of the archive, or "x.0": dim 0 of input x
  std::vector<int64_t> values;
};

/// The sizes of one program's dynamic dimensions.
struct DimSizes {
  std::vector<std::pair<std::string, int64_t>> sizes; ///< by name, as above
  /// Dimensions that are not named keep the size of the export.
  bool keepExported = false;
};

/// A dynamic dimension of an archive, for people.
struct DynamicDim {
  std::string symbol;
  std::vector<std::string> places; ///< "x.0", "z.0 = Mul(2, s17)"
  std::string range;               ///< "2 to 64"
  std::optional<int64_t> exported; ///< its size in the export
  std::vector<int64_t> bound;      ///< its size in each program
};

} // namespace fsdp

#endif // FSDP_IR_CAPTURE_REQUEST_DIMS_H
