//===- MappedBlocks.h - Memory that goes back when released -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_DEVICE_MAPPEDBLOCKS_H
#define FSDP_RUNTIME_DEVICE_MAPPEDBLOCKS_H

#include <atomic>
#include <cstddef>
#include <map>
#include <mutex>

namespace fsdp {

/// Blocks of pages of their own. The C library's heap would keep what lies
/// below whatever outlives a block, and what libraries ask it for later would
/// wander through the gaps, each of which stays resident. Any thread may call
/// any function.
class MappedBlocks {
public:
  /// Bytes; less is the heap's.
  static constexpr size_t kLeast = size_t(64) << 10;

  /// Null if the system has none.
  void *allocate(size_t bytes);
  /// False if `pointer` is none of these blocks.
  bool release(void *pointer);
  /// Bytes of the block; 0 if it is none.
  size_t bytesOf(void *pointer) const;

private:
  /// Most programs have none when they run: then nobody locks.
  std::atomic<size_t> count = 0;
  mutable std::mutex mutex;
  std::map<void *, size_t> blocks;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_DEVICE_MAPPEDBLOCKS_H
