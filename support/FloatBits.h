//===- FloatBits.h - Numbers of f32 as bits ---------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Hosts and GPUs compile the same functions and get the same bits.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_SUPPORT_FLOATBITS_H
#define FSDP_SUPPORT_FLOATBITS_H

#include "support/HostDevice.h"

#include <cstdint>

namespace fsdp::element {

FSDP_HOST_DEVICE inline uint32_t bitsOf(float number) {
  return __builtin_bit_cast(uint32_t, number);
}
FSDP_HOST_DEVICE inline float numberOf(uint32_t bits) {
  return __builtin_bit_cast(float, bits);
}

FSDP_HOST_DEVICE inline float fromBf16(uint16_t code) {
  return numberOf(uint32_t(code) << 16);
}

/// To nearest, ties to even; NaNs stay NaNs.
FSDP_HOST_DEVICE inline uint16_t toBf16(float number) {
  uint32_t bits = bitsOf(number);
  uint32_t rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
  return static_cast<uint16_t>((bits & 0x7FFFFFFF) > 0x7F800000 ? 0x7FC0
                                                                : rounded);
}

} // namespace fsdp::element

#endif // FSDP_SUPPORT_FLOATBITS_H
