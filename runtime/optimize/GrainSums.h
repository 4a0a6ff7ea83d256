//===- GrainSums.h - Sums of a rank's grains --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a rank keeps of the tree in which a step's grains are summed
// (plan/Grains.h): `partials` has a leading dim of sums of earlier grains, the
// oldest first, of which countKept(number) hold something in front of grain
// `number` of the rank's. On the CPU; each sum is rounded to the tensors' type,
// and none depends on where an element lies.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_OPTIMIZE_GRAINSUMS_H
#define FSDP_RUNTIME_OPTIMIZE_GRAINSUMS_H

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace fsdp {

/// Adds grain `number` to the sums that its node completes. `isIdle`: the rank
/// has no such grain; it counts as -0, which changes no sum. All tensors are
/// contiguous, of one type (f32, f64, bf16 or f16).
void addGrain(const at::Tensor &partials, uint32_t number,
              const at::Tensor &grain, bool isIdle);

/// `output` takes the sum of the first `kept` partial sums and the last grain,
/// divided by `divisor`. It may be the grain or the first partial sum.
void endGrains(const at::Tensor &partials, uint32_t kept,
               const at::Tensor &grain, bool isIdle, double divisor,
               const at::Tensor &output);

} // namespace fsdp

#endif // FSDP_RUNTIME_OPTIMIZE_GRAINSUMS_H
