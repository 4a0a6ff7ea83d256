//===- Elements.h - An element as it is stored ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Hosts and GPUs compile the same functions, without contraction, and get the
// same bits.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_OPTIMIZE_ELEMENTS_H
#define FSDP_RUNTIME_OPTIMIZE_ELEMENTS_H

#include "support/BlockCodes.h"
#include "support/FloatBits.h"

#include <cstdint>

namespace fsdp {

/// How numbers of an update are stored.
enum class Form : uint8_t {
  f32,
  bf16,
  f16,
  dynamicSigned,
  dynamicUnsigned,
  float8
};

FSDP_HOST_DEVICE constexpr bool isCode(Form form) {
  return form != Form::f32 && form != Form::bf16 && form != Form::f16;
}
FSDP_HOST_DEVICE constexpr int64_t bytesOf(Form form) {
  return form == Form::f32 ? 4 : isCode(form) ? 1 : 2;
}

/// The scale of a block whose greatest absolute value that is.
FSDP_HOST_DEVICE inline float toScale(Form form, float greatest) {
  return form == Form::float8 ? greatest / kGreatestFloat8 : greatest;
}

namespace element {

/// The bits of an absolute value, which order as the values do, NaNs last.
FSDP_HOST_DEVICE inline uint32_t magnitudeOf(float number) {
  return bitsOf(number) & 0x7FFFFFFF;
}

/// Up with the probability of what is cut off, which `random`, of 16 bits,
/// exceeds then.
FSDP_HOST_DEVICE inline uint16_t toBf16AtRandom(float number, uint32_t random) {
  uint32_t bits = bitsOf(number);
  uint32_t magnitude = bits & 0x7FFFFFFF;
  uint32_t rounded = magnitude < 0x7F800000 ? bits + random : bits;
  return static_cast<uint16_t>(magnitude > 0x7F800000 ? 0x7FC0 : rounded >> 16);
}

/// A DynamicMap's greatest rank whose border is not above the begin of the cell
/// of a number with these bits.
template <typename Cell>
FSDP_HOST_DEVICE inline int32_t findCell(const Cell *cells, int32_t bits) {
  constexpr auto kFirst = static_cast<int32_t>(DynamicMap::kFirstCell),
                 kLast = static_cast<int32_t>(DynamicMap::kLastCell);
  int32_t cell = (bits & 0x7FFFFFFF) >> 16;
  cell = cell < kFirst ? kFirst : cell > kLast ? kLast : cell;
  return cells[cell - kFirst];
}

/// The code of the number, which is at most 1, nearest to that with these bits;
/// of two that are equally near, the one nearer to zero. `rank`: its cell's. A
/// NaN's code is that of 1, whatever its sign.
FSDP_HOST_DEVICE inline int32_t toDynamic(const float *middles,
                                          int32_t lastNegative, int32_t bits,
                                          int32_t rank) {
  auto magnitude = __builtin_bit_cast(float, bits & 0x7FFFFFFF);
  rank += magnitude > middles[rank] ? 1 : 0;
  int32_t negative = rank < lastNegative ? rank : lastNegative;
  return magnitude == magnitude && bits < 0 ? 256 - negative : rank;
}

/// The code of float8_e4m3fn nearest to a number, ties to even; NaN above 464,
/// without a sign of NaNs.
FSDP_HOST_DEVICE inline uint8_t toFloat8(float number) {
  uint32_t bits = bitsOf(number);
  uint32_t magnitude = bits & 0x7FFFFFFF;
  // Below the least normal number the digits end at 2^-9: an addition rounds
  // there.
  constexpr uint32_t kShift = uint32_t(127 + 23 - 9) << 23;
  uint32_t small = bitsOf(numberOf(magnitude) + numberOf(kShift)) - kShift;
  uint32_t normal = (magnitude - (uint32_t(127 - 7) << 23) + 0x7FFFF +
                     (magnitude >> 20 & 1)) >>
                    20;
  uint32_t code = magnitude < uint32_t(127 - 6) << 23 ? small : normal;
  code = magnitude > 0x43E80000 ? 0x7F : code;
  uint32_t sign = magnitude > 0x7F800000 ? 0 : bits >> 31 << 7;
  return static_cast<uint8_t>(code | sign);
}

} // namespace element
} // namespace fsdp

#endif // FSDP_RUNTIME_OPTIMIZE_ELEMENTS_H
