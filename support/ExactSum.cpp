//===- ExactSum.cpp - Sums of squares without rounding --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "support/ExactSum.h"

#include "support/Vectorized.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

using namespace fsdp;

namespace {

constexpr int kBits = 40, kLowest = -320;
constexpr size_t kSpecial = std::tuple_size_v<SumDigits> - 1;
constexpr int64_t kNaN = int64_t{1} << 32;

constexpr int exponentOf(size_t digit) {
  return kBits * static_cast<int>(digit) + kLowest;
}

/// Floats at a time. Their parts of a digit, of at most 41 bits each, have a
/// sum that a double holds.
constexpr size_t kBlock = 256;
/// Blocks after which digits may be near the end of their room.
constexpr size_t kBlocksToCarry = 4096;

/// The squares, which doubles hold exactly, and the bits of the greatest.
FSDP_VECTORIZED
uint64_t square(const float *__restrict from, size_t count,
                double *__restrict to) {
  uint64_t greatest = 0;
  for (size_t i = 0; i < count; ++i) {
    double wide = from[i];
    to[i] = wide * wide;
  }
  for (size_t i = 0; i < count; ++i)
    greatest = std::max(greatest, std::bit_cast<uint64_t>(to[i]));
  return greatest;
}

/// Takes the multiples of a digit's unit out of `values`, and returns their
/// sum. `shift` is 1.5 * 2^52 units: adding it rounds to one. `isLeft`: whether
/// anything is left.
FSDP_VECTORIZED
double takeDigit(double *__restrict values, size_t count, double shift,
                 bool &isLeft) {
  double sums[8] = {};
  uint64_t left = 0;
  for (size_t i = 0; i < count; i += 8)
    for (size_t j = 0; j < 8; ++j) {
      double part = (values[i + j] + shift) - shift;
      sums[j] += part;
      values[i + j] -= part;
      left |= std::bit_cast<uint64_t>(values[i + j]) << 1;
    }
  isLeft = left != 0;
  double sum = 0;
  for (double each : sums)
    sum += each;
  return sum;
}

/// Counts what is not finite, and leaves zeros in its places.
uint64_t takeSpecials(double *values, size_t count, SumDigits &digits) {
  uint64_t greatest = 0;
  for (size_t i = 0; i < count; ++i) {
    if (!std::isfinite(values[i])) {
      digits[kSpecial] += std::isnan(values[i]) ? kNaN : 1;
      values[i] = 0;
    }
    greatest = std::max(greatest, std::bit_cast<uint64_t>(values[i]));
  }
  return greatest;
}

void addBlock(const float *from, size_t count, SumDigits &digits) {
  alignas(64) double values[kBlock];
  uint64_t greatest = square(from, count, values);
  if (!std::isfinite(std::bit_cast<double>(greatest)))
    greatest = takeSpecials(values, count, digits);
  if (greatest == 0)
    return;
  std::fill(values + count, values + (count + 7) / 8 * 8, 0.0);
  int top = std::ilogb(std::bit_cast<double>(greatest));
  bool isLeft = true;
  for (auto digit = static_cast<size_t>((top - kLowest) / kBits);
       isLeft && digit < kSpecial; --digit) {
    int exponent = exponentOf(digit);
    double sum = takeDigit(values, (count + 7) / 8 * 8,
                           std::ldexp(1.5, 52 + exponent), isLeft);
    digits[digit] += static_cast<int64_t>(std::ldexp(sum, -exponent));
  }
}

} // namespace

void fsdp::addSquares(const float *values, size_t count, SumDigits &digits) {
  size_t blocks = 0;
  for (size_t begin = 0; begin < count; begin += kBlock) {
    addBlock(values + begin, std::min(kBlock, count - begin), digits);
    if (++blocks % kBlocksToCarry == 0)
      carry(digits);
  }
  carry(digits);
}

void fsdp::carry(SumDigits &digits) {
  for (size_t i = 0; i + 1 < kSpecial; ++i) {
    int64_t over = digits[i] >> kBits;
    digits[i] -= over << kBits;
    digits[i + 1] += over;
  }
}

float fsdp::rootOf(SumDigits digits) {
  if (digits[kSpecial] >= kNaN)
    return std::numeric_limits<float>::quiet_NaN();
  if (digits[kSpecial] != 0)
    return std::numeric_limits<float>::infinity();
  // Each sum has one form, and with that one root.
  carry(digits);
  double sum = 0;
  for (size_t i = kSpecial; i-- > 0;)
    sum += std::ldexp(static_cast<double>(digits[i]), exponentOf(i));
  return static_cast<float>(std::sqrt(sum));
}
