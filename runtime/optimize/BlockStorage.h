//===- BlockStorage.h - A block as it is stored -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_OPTIMIZE_BLOCKSTORAGE_H
#define FSDP_RUNTIME_OPTIMIZE_BLOCKSTORAGE_H

#include "runtime/optimize/Elements.h"

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace fsdp {

inline constexpr int kMost = kBlockElements;

/// One block's numbers on their way.
struct Block {
  alignas(64) float param[kMost], grad[kMost];
  alignas(64) float moments[2][kMost];
};

/// `isSigned`: of codes that are bytes. Throws c10::Error for other types.
Form formOf(const at::Tensor &tensor, bool isSigned);

/// `count` numbers, at most kMost. `scale` is that of codes, else 1.
void readBlock(Form form, const char *from, int count, float scale, float *to);
void writeBlock(Form form, const float *from, int count, float scale, char *to);

/// Up with the probability of what is cut off, which `random` exceeds then.
void writeBf16AtRandom(const float *from, const uint16_t *random, int count,
                       uint16_t *to);

/// The bits of the greatest absolute value, which order as the values do; of a
/// NaN if one is.
uint32_t findGreatest(const float *from, int count);

} // namespace fsdp

#endif // FSDP_RUNTIME_OPTIMIZE_BLOCKSTORAGE_H
