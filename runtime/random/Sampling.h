//===- Sampling.h - Draws on the CPU ----------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Fills tensors with the numbers that `fsdp.draw` defines. A number depends on
// its position alone, not on threads or on what was drawn before;
// docs/Rationale/Random.md states which counter it comes from.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_RANDOM_SAMPLING_H
#define FSDP_RUNTIME_RANDOM_SAMPLING_H

#include "plan/plan_generated.h"
#include "support/Philox.h"

#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

namespace fsdp {

/// One sequence of random blocks: those of one site, in one step, on one rank.
struct RandomSequence {
  philox::Key key;
  uint32_t site;
  uint32_t offset;

  /// `seed` and `offset` are the random state's two elements.
  RandomSequence(int64_t seed, int64_t offset, int rank, uint32_t site);

  /// The block at `index`.
  philox::Block block(uint64_t index) const {
    return philox::generate(
        {uint32_t(index), uint32_t(index >> 32), site, offset}, key);
  }
};

/// What is drawn: the fields of the plan's Draw.
struct DrawParameters {
  plan::Distribution kind;
  std::vector<double> numbers = {};
  std::vector<int64_t> range = {};
  std::vector<at::Tensor> given = {}; ///< contiguous, of the output's type
};

/// Fills `output`, whose elements lie one behind the other in some order of its
/// dims. Uses LibTorch's threads. Throws c10::Error if an element's parameter
/// is invalid, or the dtype is none that the distribution draws.
void sample(const DrawParameters &parameters, const RandomSequence &sequence,
            const at::Tensor &output);

} // namespace fsdp

#endif // FSDP_RUNTIME_RANDOM_SAMPLING_H
