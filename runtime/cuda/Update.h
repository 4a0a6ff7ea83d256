//===- Update.h - Updates in blocks on a device -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What runtime/optimize/BlockUpdate.h does on the host, with the same bits.
// Needs no CUDA header.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_CUDA_UPDATE_H
#define FSDP_RUNTIME_CUDA_UPDATE_H

#include "runtime/device/Streams.h"
#include "runtime/optimize/ElementRuns.h"
#include "runtime/optimize/ElementUpdates.h"
#include "runtime/optimize/Elements.h"

#include <cstdint>

namespace fsdp {

/// Most moments that an optimizer keeps of a parameter, and most dims of a
/// gradient that does not lie in row-major order.
inline constexpr int kMostMoments = 2, kMostGradientDims = 8;

/// A number in the device's memory, f32 or f64; null: none.
struct DeviceNumber {
  const void *at = nullptr;
  bool isDouble = false;
};

/// Neighbouring elements that are neighbours in the tensor of which blocks are
/// counted. Pieces of kBlockElements, but for the first and the last, each
/// belong to one block.
struct UpdateSpan {
  int64_t firstPiece; ///< pieces of all spans in front
  int64_t local;      ///< the first one's number in what the rank holds
  int64_t whole;      ///< in the tensor of which blocks are counted
  int64_t count;
  uint32_t tensor;
};

/// A parameter and what is kept of it, on the device.
struct DeviceUpdatedTensor {
  char *param;
  const char *grad;
  char *moments[kMostMoments];
  float *scales[kMostMoments];
  /// Greatest values of blocks that ranks share.
  float *maxima[kMostMoments];
  int64_t blocks; ///< scales of each moment
  uint32_t firstRun, runCount;
  /// Whether 8 elements from a multiple of 8 on can be read at once.
  bool isAligned;
  /// Of a gradient that does not lie in row-major order; else 0.
  int gradDims;
  int64_t gradSizes[kMostGradientDims], gradStrides[kMostGradientDims];
};

/// An update of several tensors. What it points to is on the device.
struct DeviceUpdate {
  OptimizerKind kind;
  RuleNumbers numbers;
  Form param;
  Form moments[kMostMoments];
  int momentCount;
  DeviceNumber lr, step, gradScale;
  const float *foundInf; ///< 1: no update; null: there is always one
  bool isRounded;        ///< at random, by `seed`
  uint64_t seed;
  bool sharesBlocks;
  /// The maxima of all tensors, those too of which the rank has no elements.
  float *found;
  int64_t foundCount;
  const DeviceUpdatedTensor *tensors; ///< `tensorCount`
  const UpdateSpan *spans;            ///< `spanCount`, with `pieces`
  const ElementRun *runs;             ///< of what is rounded at random
  int64_t tensorCount, spanCount, pieces;
};

/// Puts it on the stream: parameters, moments and scales change.
void updateOnDevice(const DeviceUpdate &update, StreamHandle stream);

/// Sets `found` to the greatest absolute values that the rank's elements of
/// each block will have, and to 0 where it has none.
void findMaximaOnDevice(const DeviceUpdate &update, StreamHandle stream);

} // namespace fsdp

#endif // FSDP_RUNTIME_CUDA_UPDATE_H
