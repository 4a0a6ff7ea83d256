//===- KernelNumbers.h - What our own kernels are to compute ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Asked of a GPU, and of the same sources as C++ of the host.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TEST_UNIT_RUNTIME_CUDA_KERNELNUMBERS_H
#define FSDP_TEST_UNIT_RUNTIME_CUDA_KERNELNUMBERS_H

#include "runtime/device/Streams.h"

#include <cstdint>

namespace fsdp::test {

/// Where kernels run, and what they work on.
class KernelMemory {
public:
  virtual ~KernelMemory() = default;

  virtual StreamHandle onStream() const = 0;
  /// `bytes` that begin `skew` behind a multiple of 16; until `clear`.
  virtual char *make(uint64_t bytes, uint64_t skew = 0) = 0;
  virtual void clear() = 0;
  virtual void write(char *to, const void *from, uint64_t bytes) = 0;
  /// What the stream's kernels left.
  virtual void read(void *to, const char *from, uint64_t bytes) = 0;
};

/// `reduceOnDevice` gives `reduceRows`' bits: all types, aligned and not, few
/// elements and many, one output and several.
void expectTheHostsReductions(KernelMemory &memory);
/// `sumPartsOnDevice` gives `reduceRows`' bits: all types, aligned and not, one
/// part and many.
void expectTheHostsPartSums(KernelMemory &memory);
/// `drawOnDevice` gives `sample`'s numbers.
void expectTheHostsDraws(KernelMemory &memory);
/// `updateOnDevice` and `findMaximaOnDevice` give `update`'s and `findMaxima`'s
/// bits: all optimizers and ways to store, aligned and not, rounded at random,
/// blocks that ranks share, NaNs, infinities, zeros and the least numbers.
void expectTheHostsUpdates(KernelMemory &memory);
/// `dequantizeOnDevice` gives `dequantizeBlocks`' bits: all forms and types,
/// all codes, rows and numbers that begin anywhere, scales of all kinds.
void expectTheHostsNumbersOfCodes(KernelMemory &memory);
/// `raiseOnDevice` counts up from 0, in both places.
void expectCounts(KernelMemory &memory);

} // namespace fsdp::test

#endif // FSDP_TEST_UNIT_RUNTIME_CUDA_KERNELNUMBERS_H
