//===- Reduce.h - Combine rows of several ranks -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The one place where back ends on the CPU do arithmetic, so that all of them
// give the same bits.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_COMM_REDUCE_H
#define FSDP_RUNTIME_COMM_REDUCE_H

#include "plan/Grains.h"
#include "plan/plan_generated.h"

#include <cstddef>
#include <span>

namespace fsdp {

/// How rows are combined. Sums of floating-point numbers divide the rows by
/// `pre` and the result by `post`. A sum of grains (`tree`) has an `order`, as
/// long as there are rows.
struct Combination {
  plan::Reduction reduction;
  double pre = 1, post = 1;
  SumOrder order;

  Combination(plan::Reduction reduction, double pre = 1, double post = 1)
      : reduction(reduction), pre(pre), post(post) {}
  bool operator==(const Combination &) const = default;
};

/// Throws fsdp::Error (ReductionUnsupported) if `reduction` has no meaning for
/// `dtype`: sums and maxima of 8-bit floats in their own type, means of
/// integers, sums of bools, maxima of complex numbers, sums of grains that are
/// not of floating point. The same if it cannot give elements of `result`.
void checkReduction(plan::DType dtype, plan::Reduction reduction,
                    plan::DType result);
inline void checkReduction(plan::DType dtype, plan::Reduction reduction) {
  checkReduction(dtype, reduction, dtype);
}

/// outputs[*][i] = sources[0][i] (+) sources[1][i] (+) …, in that order, where
/// outputs have elements of `result`: `dtype`, or a wider type (`canWiden`).
/// Sums of f16 and bf16 are formed in f32 and rounded once; `avg` divides the
/// sum by the number of sources before that, as do `pre` and `post`. In a sum
/// of grains each inner sum is rounded to the type of the rows. An output may
/// be the same memory as one of the sources, but not overlap it otherwise.
void reduceRows(std::span<const void *const> sources,
                std::span<void *const> outputs, size_t elements,
                plan::DType dtype, plan::DType result,
                const Combination &combination);
inline void reduceRows(std::span<const void *const> sources,
                       std::span<void *const> outputs, size_t elements,
                       plan::DType dtype, const Combination &combination) {
  reduceRows(sources, outputs, elements, dtype, dtype, combination);
}

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_REDUCE_H
