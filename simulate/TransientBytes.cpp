//===- TransientBytes.cpp - Memory in use over a program ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "simulate/TransientBytes.h"

#include "plan/Lifetimes.h"

#include <algorithm>

using namespace fsdp;

namespace {

/// How many bytes at least one of many ranges covers: a tree over the pieces
/// between their ends.
class Cover {
public:
  explicit Cover(std::vector<uint64_t> ends) : ends(std::move(ends)) {
    std::ranges::sort(this->ends);
    auto twice = std::ranges::unique(this->ends);
    this->ends.erase(twice.begin(), twice.end());
    nodes.resize(4 * std::max<size_t>(this->ends.size(), 1));
  }

  /// Both are among `ends`; `change` is 1, or -1 to take a range away.
  void add(uint64_t begin, uint64_t end, int change) {
    if (begin < end)
      add(0, 0, ends.size() - 1, begin, end, change);
  }
  uint64_t total() const { return nodes[0].covered; }

private:
  struct Node {
    int ranges = 0; ///< that cover all of it, but not all of its parent
    uint64_t covered = 0;
  };

  void add(size_t node, size_t low, size_t high, uint64_t begin, uint64_t end,
           int change) {
    if (end <= ends[low] || ends[high] <= begin)
      return;
    size_t left = 2 * node + 1, right = left + 1, middle = (low + high) / 2;
    bool isPiece = high - low == 1;
    if (begin <= ends[low] && ends[high] <= end) {
      nodes[node].ranges += change;
    } else {
      add(left, low, middle, begin, end, change);
      add(right, middle, high, begin, end, change);
    }
    if (nodes[node].ranges > 0)
      nodes[node].covered = ends[high] - ends[low];
    else
      nodes[node].covered =
          isPiece ? 0 : nodes[left].covered + nodes[right].covered;
  }

  std::vector<uint64_t> ends;
  std::vector<Node> nodes;
};

} // namespace

std::vector<uint64_t> fsdp::getTransientBytes(const plan::ProgramT &program) {
  size_t count = program.instructions.size();
  std::vector<uint64_t> bytes(count);
  if (count == 0)
    return bytes;
  std::vector<std::vector<uint32_t>> begins(count), ends(count);
  std::vector<uint64_t> addresses;
  for (const Lifetime &life : findLifetimes(program)) {
    const plan::ValueT &value = *program.values[life.value];
    if (value.memory != plan::MemorySpace::device)
      continue;
    begins[life.made].push_back(life.value);
    ends[life.last].push_back(life.value);
    addresses.push_back(value.offset);
    addresses.push_back(value.offset + value.bytes);
  }
  Cover cover(std::move(addresses));
  auto change = [&](const std::vector<uint32_t> &values, int by) {
    for (uint32_t index : values) {
      const plan::ValueT &value = *program.values[index];
      cover.add(value.offset, value.offset + value.bytes, by);
    }
  };
  for (size_t at = 0; at < count; ++at) {
    change(begins[at], 1);
    bytes[at] = cover.total();
    change(ends[at], -1);
  }
  return bytes;
}
