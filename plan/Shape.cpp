//===- Shape.cpp - Sizes of tensors, with overflow checked ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/Shape.h"

using namespace fsdp;

// More than any machine addresses, and products of two such fit 128 bits.
static constexpr uint64_t kLimit = uint64_t{1} << 47;

std::optional<uint64_t> fsdp::checkedElements(std::span<const int64_t> shape) {
  bool empty = false;
  unsigned __int128 product = 1;
  for (int64_t size : shape) {
    if (size < 0 || static_cast<uint64_t>(size) > kLimit)
      return std::nullopt;
    empty |= size == 0;
    product = empty ? 0 : product * static_cast<uint64_t>(size);
    if (product > kLimit)
      return std::nullopt;
  }
  return static_cast<uint64_t>(product);
}

std::optional<uint64_t> fsdp::checkedExtent(std::span<const int64_t> shape,
                                            std::span<const int64_t> strides,
                                            uint64_t elementBytes) {
  std::optional<uint64_t> elements = checkedElements(shape);
  if (!elements || (!strides.empty() && strides.size() != shape.size()))
    return std::nullopt;
  unsigned __int128 span = *elements;
  if (!strides.empty()) {
    span = 1;
    for (size_t i = 0; i < shape.size(); ++i) {
      if (strides[i] < 0 || static_cast<uint64_t>(strides[i]) > kLimit)
        return std::nullopt;
      if (*elements != 0)
        span += static_cast<unsigned __int128>(shape[i] - 1) *
                static_cast<uint64_t>(strides[i]);
      if (span > kLimit)
        return std::nullopt;
    }
    if (*elements == 0)
      span = 0;
  }
  span *= elementBytes;
  if (span > kLimit)
    return std::nullopt;
  return static_cast<uint64_t>(span);
}

std::vector<int64_t> fsdp::shardShape(std::vector<int64_t> shape, size_t dim,
                                      int64_t size) {
  shape[dim] = shardRows(shape[dim], size);
  return shape;
}

std::string fsdp::toString(std::span<const int64_t> shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i)
    text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}
