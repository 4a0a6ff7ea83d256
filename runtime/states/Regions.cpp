//===- Regions.cpp - Rectangles of tensors --------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/states/Regions.h"

#include <algorithm>
#include <utility>

using namespace fsdp;

Region Region::all(std::span<const int64_t> shape) {
  return {std::vector<int64_t>(shape.size(), 0), {shape.begin(), shape.end()}};
}

uint64_t Region::elements() const {
  uint64_t count = 1;
  for (int64_t each : size)
    count *= static_cast<uint64_t>(each);
  return count;
}

Region fsdp::intersect(const Region &a, const Region &b) {
  Region both;
  for (size_t i = 0; i < a.size.size(); ++i) {
    int64_t begin = std::max(a.offset[i], b.offset[i]);
    int64_t end = std::min(a.offset[i] + a.size[i], b.offset[i] + b.size[i]);
    both.offset.push_back(begin);
    both.size.push_back(std::max<int64_t>(end - begin, 0));
  }
  return both;
}

std::vector<int64_t> fsdp::contiguousStrides(std::span<const int64_t> shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t i = shape.size(); i > 1; --i)
    strides[i - 2] = strides[i - 1] * shape[i - 1];
  return strides;
}

std::vector<Region> fsdp::toRegions(std::span<const int64_t> shape,
                                    uint64_t first, uint64_t count) {
  if (count == 0)
    return {};
  if (shape.empty())
    return {{}};
  uint64_t row = 1;
  for (int64_t each : shape.subspan(1))
    row *= static_cast<uint64_t>(each);
  std::vector<Region> regions;
  auto addRow = [&](uint64_t number, uint64_t from, uint64_t elements) {
    for (Region inner : toRegions(shape.subspan(1), from, elements)) {
      inner.offset.insert(inner.offset.begin(), static_cast<int64_t>(number));
      inner.size.insert(inner.size.begin(), 1);
      regions.push_back(std::move(inner));
    }
  };
  if (uint64_t within = first % row; within != 0) {
    uint64_t head = std::min(row - within, count);
    addRow(first / row, within, head);
    first += head;
    count -= head;
  }
  if (uint64_t rows = count / row; rows != 0) {
    Region whole = Region::all(shape);
    whole.offset[0] = static_cast<int64_t>(first / row);
    whole.size[0] = static_cast<int64_t>(rows);
    regions.push_back(std::move(whole));
  }
  if (count % row != 0)
    addRow((first + count) / row, 0, count % row);
  return regions;
}

uint64_t fsdp::distance(const Region &inner, const Region &outer,
                        std::span<const int64_t> strides) {
  int64_t elements = 0;
  for (size_t i = 0; i < strides.size(); ++i)
    elements += (inner.offset[i] - outer.offset[i]) * strides[i];
  return static_cast<uint64_t>(elements);
}

/// The outer dims over which runs repeat, and a run's length: the inner dims
/// that lie without gaps in both places.
static std::pair<size_t, int64_t> findRun(std::span<const int64_t> size,
                                          std::span<const int64_t> stridesA,
                                          std::span<const int64_t> stridesB) {
  size_t outer = size.size();
  int64_t length = 1;
  while (outer > 0 && (size[outer - 1] == 1 || (stridesA[outer - 1] == length &&
                                                stridesB[outer - 1] == length)))
    length *= size[--outer];
  return {outer, length};
}

int64_t fsdp::runLength(std::span<const int64_t> size,
                        std::span<const int64_t> stridesA,
                        std::span<const int64_t> stridesB) {
  return findRun(size, stridesA, stridesB).second;
}

void fsdp::forEachRun(
    std::span<const int64_t> size, std::span<const int64_t> stridesA,
    std::span<const int64_t> stridesB,
    const std::function<void(uint64_t, uint64_t, uint64_t)> &run) {
  auto [outer, length] = findRun(size, stridesA, stridesB);
  std::vector<int64_t> index(outer, 0);
  for (int64_t each : size)
    if (each == 0)
      return;
  for (uint64_t a = 0, b = 0;;) {
    run(a, b, static_cast<uint64_t>(length));
    size_t dim = outer;
    for (; dim > 0; --dim) {
      size_t i = dim - 1;
      a += static_cast<uint64_t>(stridesA[i]);
      b += static_cast<uint64_t>(stridesB[i]);
      if (++index[i] < size[i])
        break;
      a -= static_cast<uint64_t>(stridesA[i] * size[i]);
      b -= static_cast<uint64_t>(stridesB[i] * size[i]);
      index[i] = 0;
    }
    if (dim == 0)
      return;
  }
}
