//===- ExactSum.h - Sums of squares without rounding ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A sum of squares of floats as digits of a fixed-point number that is wide
// enough for all of them: nothing is rounded, so the sum depends neither on the
// order nor on how the floats are cut into parts.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_SUPPORT_EXACTSUM_H
#define FSDP_SUPPORT_EXACTSUM_H

#include <array>
#include <cstddef>
#include <cstdint>

namespace fsdp {

/// Digit k counts multiples of 2^(40 k - 320); the last one counts infinities,
/// and NaNs in its upper half. The sum of several sums is that of their digits.
/// Has room for 2^40 floats, and for the digits of 2^20 such sums.
using SumDigits = std::array<int64_t, 16>;

/// Adds the squares of `count` floats.
void addSquares(const float *values, size_t count, SumDigits &digits);

/// Leaves what the digits stand for as it is, and makes each less than 2^40.
void carry(SumDigits &digits);

/// The root of what the digits stand for; NaN or infinity if a square was.
float rootOf(SumDigits digits);

} // namespace fsdp

#endif // FSDP_SUPPORT_EXACTSUM_H
