//===- BlockNumbers.h - What codes of blocks stand for ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// nf4: the 16 numbers of 4-bit NormalFloat (Dettmers et al., "QLoRA",
// arXiv:2305.14314, appendix E). fp4: a sign, and one of 8 magnitudes that are
// not in the order of their codes. Both have two codes a byte, the first in its
// upper half. int8: whole numbers. Scales: bitsandbytes' dynamic map, in its
// order, to the last bit as PyTorch computes it.
//
// A number is its code's times the scale, in f32; a coded scale is its code's
// number times what the row's codes share, rounded, plus what all are relative
// to. Host and devices share these definitions: where a number is a NaN, it is
// the same one on both.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_SUPPORT_BLOCKNUMBERS_H
#define FSDP_SUPPORT_BLOCKNUMBERS_H

#include "support/BlockForm.h"
#include "support/FloatBits.h"

#include <array>
#include <cstdint>

#ifdef __CUDACC__
#include <cuda_fp16.h>
#endif

namespace fsdp {

/// By code.
inline constexpr std::array<float, 16> kNf4Numbers = {-1.0f,
                                                      -0.6961928009986877f,
                                                      -0.5250730514526367f,
                                                      -0.39491748809814453f,
                                                      -0.28444138169288635f,
                                                      -0.18477343022823334f,
                                                      -0.09105003625154495f,
                                                      0.0f,
                                                      0.07958029955625534f,
                                                      0.16093020141124725f,
                                                      0.24611230194568634f,
                                                      0.33791524171829224f,
                                                      0.44070982933044434f,
                                                      0.5626170039176941f,
                                                      0.7229568362236023f,
                                                      1.0f};

inline constexpr std::array<float, 16> kFp4Numbers = [] {
  std::array<float, 16> numbers{0.0f,      0.0625f / 12, 8.0f / 12, 1.0f,
                                4.0f / 12, 6.0f / 12,    2.0f / 12, 3.0f / 12};
  for (size_t i = 0; i < 8; ++i)
    numbers[8 + i] = -numbers[i];
  return numbers;
}();

/// Ascending. Of each of seven decades, which have 1, 2, 4 … 64 steps, the
/// middles of equal parts from a tenth of its end to its end; these negated; 0
/// and 1. Each operation rounds to f32 as in torch.linspace and on tensors.
inline constexpr std::array<float, 256> kScaleNumbers = [] {
  constexpr int kZero = 127;
  constexpr float kEnds[] = {1e-6f, 1e-5f, 1e-4f, 1e-3f, 1e-2f, 1e-1f, 1.0f};
  std::array<float, 256> numbers{};
  int at = kZero;
  for (int decade = 0; decade < 7; ++decade) {
    int steps = 1 << decade;
    float step = (1.0f - 0.1f) / static_cast<float>(steps);
    // Contracted: the product is not rounded.
    auto border = [&](int i) {
      double wide = static_cast<double>(step);
      return static_cast<float>(i < (steps + 1) / 2 ? 0.1f + wide * i
                                                    : 1 - wide * (steps - i));
    };
    for (int i = 0; i < steps; ++i) {
      float middle = (border(i) + border(i + 1)) / 2 * kEnds[decade];
      numbers[static_cast<size_t>(++at)] = middle;
      numbers[static_cast<size_t>(2 * kZero - at)] = -middle;
    }
  }
  numbers[255] = 1;
  return numbers;
}();

/// Code of the number 0.
inline constexpr uint8_t kZeroNf4 = 7, kZeroScale = 127;

/// The numbers that a block's codes of 4 bits stand for.
constexpr const std::array<float, 16> &getNumbers(BlockKind kind) {
  return kind == BlockKind::Fp4 ? kFp4Numbers : kNf4Numbers;
}

namespace blocks {

using element::bitsOf;
using element::numberOf;

/// What a code with this number stands for.
FSDP_HOST_DEVICE inline float decode(float number, float scale) {
  float product = number * scale;
  return product == product ? product : numberOf(0x7fc00000);
}

/// Sources that call this are compiled without contraction.
FSDP_HOST_DEVICE inline float decodeScale(float number, float shared,
                                          float offset) {
#ifdef __CUDA_ARCH__
  return __fadd_rn(__fmul_rn(number, shared), offset);
#else
  return number * shared + offset;
#endif
}

/// The bits of what `decode` returns as f16, rounded to nearest, ties to even.
FSDP_HOST_DEVICE inline uint16_t roundToHalf(float value) {
#ifdef __CUDA_ARCH__
  return value == value ? __half_as_ushort(__float2half_rn(value)) : 0x7e00;
#else
  uint32_t bits = bitsOf(value), sign = bits >> 16 & 0x8000;
  bits &= 0x7fffffff;
  if (bits >= 0x47800000) // from 2^16 on
    return static_cast<uint16_t>(sign | (bits > 0x7f800000 ? 0x7e00 : 0x7c00));
  if (bits < 0x38800000) // below 2^-14: a sum with 1/2 rounds at 2^-24
    return static_cast<uint16_t>(
        sign | (bitsOf(numberOf(bits) + 0.5f) - bitsOf(0.5f)));
  return static_cast<uint16_t>(
      sign | ((bits - 0x38000000 + 0xfff + (bits >> 13 & 1)) >> 13));
#endif
}

} // namespace blocks
} // namespace fsdp

#endif // FSDP_SUPPORT_BLOCKNUMBERS_H
