//===- Reduce.h - Combine rows of several ranks -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The one place where back ends on the CPU do arithmetic, so that all of them
// give the same bits.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_COMM_REDUCE_H
#define FSDP_RUNTIME_COMM_REDUCE_H

#include "runtime/plan/plan_generated.h"

#include <cstddef>
#include <span>

namespace fsdp {

/// Throws fsdp::Error (ReductionUnsupported) if `reduction` has no meaning for
/// `dtype`: sums and maxima of 8-bit floats, means of integers, sums of bools,
/// maxima of complex numbers.
void checkReduction(plan::DType dtype, plan::Reduction reduction);

/// outputs[*][i] = sources[0][i] (+) sources[1][i] (+) …, in that order.
/// Sums of f16 and bf16 are formed in f32 and rounded once; `avg` divides the
/// sum by the number of sources before that. An output may be the same memory
/// as one of the sources, but not overlap it otherwise.
void reduceRows(std::span<const void *const> sources,
                std::span<void *const> outputs, size_t elements,
                plan::DType dtype, plan::Reduction reduction);

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_REDUCE_H
