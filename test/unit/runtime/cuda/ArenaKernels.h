//===- ArenaKernels.h - What kernels work on, in an arena -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TEST_UNIT_RUNTIME_CUDA_ARENAKERNELS_H
#define FSDP_TEST_UNIT_RUNTIME_CUDA_ARENAKERNELS_H

#include "runtime/device/Arena.h"
#include "test/unit/runtime/cuda/KernelNumbers.h"

#include <cstdint>
#include <stdexcept>

namespace fsdp::test {

/// What kernels work on: an arena's.
class ArenaKernels final : public KernelMemory {
public:
  ArenaKernels(Memory &memory, StreamHandle stream, uint64_t bytes = 1 << 20)
      : stream(stream), arena(bytes, memory) {}

  StreamHandle onStream() const override { return stream; }
  char *make(uint64_t bytes, uint64_t skew) override {
    char *made = arena.at(used + skew);
    if (used + skew + bytes > arena.bytes())
      throw std::logic_error("the arena is too small");
    used += (skew + bytes + 255) / 256 * 256;
    return made;
  }
  void clear() override { used = 0; }
  void write(char *to, const void *from, uint64_t bytes) override {
    arena.write(offsetOf(to), from, bytes);
  }
  void read(void *to, const char *from, uint64_t bytes) override {
    arena.read(offsetOf(from), to, bytes);
  }

private:
  uint64_t offsetOf(const char *at) const {
    return static_cast<uint64_t>(at - arena.at(0));
  }

  const StreamHandle stream;
  Arena arena;
  uint64_t used = 0;
};

} // namespace fsdp::test

#endif // FSDP_TEST_UNIT_RUNTIME_CUDA_ARENAKERNELS_H
