//===- Kernels.h - The runtime's own CUDA kernels ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Needs no CUDA header. All functions return as soon as their work is on the
// stream, which is one of the calling thread's device.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_CUDA_KERNELS_H
#define FSDP_RUNTIME_CUDA_KERNELS_H

#include "plan/plan_generated.h"
#include "runtime/comm/Reduce.h"
#include "runtime/device/Streams.h"
#include "support/BlockForm.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace fsdp {

/// Adds one to `count`, in the device's memory, and stores it to `seen`, which
/// the host's memory has and the device is mapped to.
void raiseOnDevice(uint64_t *count, uint64_t *seen, StreamHandle stream);

/// Most rows that `reduceOnDevice` takes.
inline constexpr size_t kMaxReducedRows = 64;

/// `reduceRows` of Reduce.h on a device, with the same bits. Throws fsdp::Error
/// (RuntimeUnsupported) if there are more rows than kMaxReducedRows.
void reduceOnDevice(std::span<const void *const> sources,
                    std::span<void *const> outputs, size_t elements,
                    plan::DType dtype, const Combination &combination,
                    StreamHandle stream);

/// Parts that lie behind each other.
struct DeviceParts {
  const void *parts;
  void *sum;       ///< of f32
  size_t elements; ///< of one part
  int count;
  plan::DType dtype; ///< of the parts: f32, or what `canWiden` to it
  double pre, post;
};

/// `reduceRows` of the parts as rows, with the same bits.
void sumPartsOnDevice(const DeviceParts &told, StreamHandle stream);

/// One draw (Sampling.h) of numbers that each depend on their own element
/// alone.
struct DeviceDraw {
  plan::Distribution kind;
  std::vector<double> numbers;
  std::vector<int64_t> range;
  const int64_t *state; ///< (seed, offset), on the device
  int rank;
  uint32_t site;
  void *output; ///< its elements lie one behind the other
  size_t elements;
  plan::DType dtype;
};

/// Whether `drawOnDevice` knows the distribution for the type.
bool canDrawOnDevice(const DeviceDraw &draw);

/// What `sample` does, with the same random words. Integers, Bernoulli's and
/// uniform numbers have the same bits, the others differ by the rounding of
/// logarithms and the like.
void drawOnDevice(const DeviceDraw &draw, StreamHandle stream);

/// Numbers of a tensor that is held in blocks of codes.
struct DeviceDequantize {
  BlockForm form;
  const void *rows; ///< as BlockForm.h says, and whatever they begin at
  void *output;     ///< its elements lie one behind the other
  size_t elements;
  plan::DType dtype; ///< f32, bf16 or f16
};

/// What `dequantizeBlocks` does, rounded to the type, with the same bits.
void dequantizeOnDevice(const DeviceDequantize &told, StreamHandle stream);

} // namespace fsdp

#endif // FSDP_RUNTIME_CUDA_KERNELS_H
