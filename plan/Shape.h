//===- Shape.h - Sizes of tensors, with overflow checked --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PLAN_SHAPE_H
#define FSDP_PLAN_SHAPE_H

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace fsdp {

/// Number of elements; none if a size is negative or the product exceeds 2^47.
std::optional<uint64_t> checkedElements(std::span<const int64_t> shape);

/// Bytes from a tensor's first to the end of its last element. `strides` in
/// elements; empty: contiguous. None if a size or stride is negative, their
/// numbers differ, or the extent exceeds 2^47.
std::optional<uint64_t> checkedExtent(std::span<const int64_t> shape,
                                      std::span<const int64_t> strides,
                                      uint64_t elementBytes);

/// Rows that each of `size` ranks holds of `rows`: rounded up.
constexpr int64_t shardRows(int64_t rows, int64_t size) {
  return rows / size + (rows % size != 0);
}

/// `shape` with dim `dim` cut to one rank's rows.
std::vector<int64_t> shardShape(std::vector<int64_t> shape, size_t dim,
                                int64_t size);

/// "[13, 17]".
std::string toString(std::span<const int64_t> shape);

} // namespace fsdp

#endif // FSDP_PLAN_SHAPE_H
