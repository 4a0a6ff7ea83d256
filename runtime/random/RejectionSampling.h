//===- RejectionSampling.h - Draws that may take several tries --*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each element has a sequence of its own, from which it takes what it needs.
// All compute in double precision.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_RANDOM_REJECTIONSAMPLING_H
#define FSDP_RUNTIME_RANDOM_REJECTIONSAMPLING_H

#include "runtime/random/Sampling.h"

namespace fsdp {

/// The random numbers of one element of a draw: blocks (element, 0), (element,
/// 1), …; 2^16 of them, for 2^48 elements.
class ElementSequence {
public:
  ElementSequence(const RandomSequence &sequence, int64_t element)
      : sequence(sequence),
        index((static_cast<uint64_t>(element) & 0xFFFFFFFF) |
              (static_cast<uint64_t>(element) >> 32 << 48)) {}

  /// In (0, 1), both ends excluded.
  double next() {
    if (used == 4) {
      block = sequence.block(index);
      index += uint64_t(1) << 32;
      used = 0;
    }
    double number = philox::toOpen(block[used], block[used + 1]);
    used += 2;
    return number;
  }

  /// Standard normal; half of what Box and Muller give.
  double nextNormal();

private:
  const RandomSequence &sequence;
  uint64_t index;
  philox::Block block{};
  size_t used = 4;
};

/// Of the given rate, at least 0. Throws c10::Error if it is not finite.
double samplePoisson(ElementSequence &random, double rate);

/// Successes in `count` trials of probability `p`. Throws c10::Error if they
/// are not in range.
double sampleBinomial(ElementSequence &random, double count, double p);

/// Of the given shape, positive, and scale 1. Throws c10::Error if it is not.
double sampleGamma(ElementSequence &random, double shape);

} // namespace fsdp

#endif // FSDP_RUNTIME_RANDOM_REJECTIONSAMPLING_H
