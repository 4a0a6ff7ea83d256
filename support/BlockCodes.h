//===- BlockCodes.h - Numbers of 8 bits that share a scale ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What an optimizer keeps in one byte an element: a code of a number from -1 to
// 1, times a scale that 256 neighbouring elements of the model's tensor share.
// The byte 0 is the number 0, so that zeroed memory holds zeros.
//
// Dynamic codes are those of bitsandbytes (Dettmers et al., "8-bit Optimizers
// via Block-wise Quantization", arXiv:2110.02861; create_dynamic_map): seven
// decades, each of twice as many steps as the one below. Signed ones count from
// their zero; they have 1 and not -1.
//
// Tables are made by compilers, so that GPUs have the host's.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_SUPPORT_BLOCKCODES_H
#define FSDP_SUPPORT_BLOCKCODES_H

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace fsdp {

/// Elements of the model's tensor, in row-major order, that share a scale.
inline constexpr int64_t kBlockElements = 256;

/// Tensors of fewer elements are not coded, as in bitsandbytes.
inline constexpr int64_t kLeastCodedElements = 4096;

/// The greatest number of float8_e4m3fn.
inline constexpr float kGreatestFloat8 = 448;

/// One of the two dynamic maps, for whoever encodes and decodes many.
struct DynamicMap {
  /// Of numbers whose upper 16 bits are kFirstCell + i, for each i.
  static constexpr uint32_t kFirstCell = 0x3380, kLastCell = 0x3F80;
  static constexpr size_t kCells = kLastCell - kFirstCell + 1;

  /// By byte.
  float values[256];
  /// Magnitudes by rank: 0, then all that are greater, ascending, up to 1.
  /// Between ranks k and k + 1 the border is middles[k]; the last is infinite.
  float middles[256];
  /// A magnitude's greatest rank of those whose border is not above the begin
  /// of its cell. No cell has more than one border in it.
  int32_t cells[kCells];
  int32_t lastNegative; ///< the greatest rank that negative numbers have
};

/// Ascending from 0 to 1, `count` of them. A decade has the middles of equal
/// parts of the range from a tenth of its end to its end.
struct DynamicMagnitudes {
  float at[256];
  int32_t count;
};

constexpr DynamicMagnitudes listMagnitudes(bool isSigned) {
  constexpr double kEnds[] = {1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1};
  DynamicMagnitudes all{};
  all.count = 1;
  int steps = isSigned ? 1 : 2;
  for (double end : kEnds) {
    for (int step = 0; step < steps; ++step)
      all.at[size_t(all.count++)] =
          static_cast<float>(end * (0.1 + 0.9 * (step + 0.5) / steps));
    steps *= 2;
  }
  all.at[size_t(all.count++)] = 1;
  return all;
}

constexpr DynamicMap makeDynamicMap(bool isSigned) {
  DynamicMagnitudes magnitudes = listMagnitudes(isSigned);
  DynamicMap map{};
  int32_t ranks = magnitudes.count;
  map.lastNegative = isSigned ? ranks - 2 : 0;
  for (int32_t rank = 0; rank < ranks; ++rank)
    map.values[size_t(rank)] = magnitudes.at[size_t(rank)];
  for (int32_t rank = 1; rank <= map.lastNegative; ++rank)
    map.values[size_t(256 - rank)] = -magnitudes.at[size_t(rank)];
  for (float &middle : map.middles)
    middle = std::numeric_limits<float>::infinity();
  for (int32_t rank = 0; rank + 1 < ranks; ++rank)
    map.middles[size_t(rank)] =
        (magnitudes.at[size_t(rank)] + magnitudes.at[size_t(rank + 1)]) / 2;
  int32_t rank = 0;
  for (size_t i = 0; i < DynamicMap::kCells; ++i) {
    auto begin = std::bit_cast<float>(
        (DynamicMap::kFirstCell + static_cast<uint32_t>(i)) << 16);
    // The first cell has all that is smaller, too.
    while (i != 0 && begin > map.middles[size_t(rank)])
      ++rank;
    map.cells[i] = rank;
  }
  return map;
}

/// By byte: the numbers of float8_e4m3fn.
struct Float8Map {
  float values[256];
};

constexpr Float8Map makeFloat8Map() {
  Float8Map all{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t exponent = byte >> 3 & 15, digits = byte & 7;
    // Normal numbers have f32's digits, and another bias; others are multiples
    // of 2^-9.
    float magnitude =
        exponent == 0
            ? static_cast<float>(digits) * 0x1p-9f
            : std::bit_cast<float>((exponent + 120) << 23 | digits << 20);
    if (exponent == 15 && digits == 7)
      magnitude = std::numeric_limits<float>::quiet_NaN();
    all.values[byte] = byte & 0x80 ? -magnitude : magnitude;
  }
  return all;
}

const DynamicMap &getDynamicMap(bool isSigned);
const Float8Map &getFloat8Map();

} // namespace fsdp

#endif // FSDP_SUPPORT_BLOCKCODES_H
