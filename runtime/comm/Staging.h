//===- Staging.h - Memory between a bucket and the network ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_COMM_STAGING_H
#define FSDP_RUNTIME_COMM_STAGING_H

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace fsdp {

/// Blocks of memory that are used again by later transfers. After the first
/// step, which makes the same transfers as all others, it does not grow.
class Staging {
public:
  class Block {
  public:
    explicit Block(size_t bytes)
        : memory(std::make_unique_for_overwrite<std::byte[]>(bytes)),
          bytes(bytes) {}
    std::byte *data() const { return memory.get(); }
    size_t size() const { return bytes; }

  private:
    std::unique_ptr<std::byte[]> memory;
    size_t bytes;
  };

  /// A block of at least `bytes`: the smallest free one that fits.
  Block take(size_t bytes) {
    auto best = free.end();
    for (auto block = free.begin(); block != free.end(); ++block)
      if (block->size() >= bytes &&
          (best == free.end() || block->size() < best->size()))
        best = block;
    if (best == free.end()) {
      total += bytes;
      return Block(bytes);
    }
    Block block = std::move(*best);
    free.erase(best);
    return block;
  }

  void give(Block block) { free.push_back(std::move(block)); }

  /// Of all blocks, free or not.
  size_t totalBytes() const { return total; }

private:
  std::vector<Block> free;
  size_t total = 0;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_STAGING_H
