//===- Regions.h - Rectangles of tensors ------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_STATES_REGIONS_H
#define FSDP_RUNTIME_STATES_REGIONS_H

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace fsdp {

/// A rectangle of a tensor: for each dim its first index and its length. A
/// tensor without dims has one.
struct Region {
  std::vector<int64_t> offset, size;

  /// All of a tensor.
  static Region all(std::span<const int64_t> shape);

  uint64_t elements() const;
  bool operator==(const Region &) const = default;
};

/// What both have; no elements if they are apart.
Region intersect(const Region &a, const Region &b);

/// Strides in elements of a contiguous tensor of that shape.
std::vector<int64_t> contiguousStrides(std::span<const int64_t> shape);

/// Elements [first, first + count) of a tensor, in row-major order, as
/// rectangles that follow one another: at most two for each dim.
std::vector<Region> toRegions(std::span<const int64_t> shape, uint64_t first,
                              uint64_t count);

/// Elements from the first one of `outer` to that of `inner`, which lies in it,
/// by the strides of `outer`.
uint64_t distance(const Region &inner, const Region &outer,
                  std::span<const int64_t> strides);

/// Neighbouring elements of a rectangle of `size` that lie without gaps in two
/// places, by two lists of strides.
int64_t runLength(std::span<const int64_t> size,
                  std::span<const int64_t> stridesA,
                  std::span<const int64_t> stridesB);

/// Calls `run(a, b, count)` for runs of neighbouring elements of a rectangle of
/// `size`, whose elements lie in two places by two lists of strides; a and b
/// are counted from its first element.
void forEachRun(
    std::span<const int64_t> size, std::span<const int64_t> stridesA,
    std::span<const int64_t> stridesB,
    const std::function<void(uint64_t a, uint64_t b, uint64_t count)> &run);

} // namespace fsdp

#endif // FSDP_RUNTIME_STATES_REGIONS_H
