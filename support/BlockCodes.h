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
//===----------------------------------------------------------------------===//

#ifndef FSDP_SUPPORT_BLOCKCODES_H
#define FSDP_SUPPORT_BLOCKCODES_H

#include <array>
#include <cstdint>

namespace fsdp {

/// Elements of the model's tensor, in row-major order, that share a scale.
inline constexpr int64_t kBlockElements = 256;

/// Tensors of fewer elements are not coded, as in bitsandbytes.
inline constexpr int64_t kLeastCodedElements = 4096;

/// The greatest number of float8_e4m3fn.
inline constexpr float kGreatestFloat8 = 448;

/// One of the two dynamic maps, for whoever encodes and decodes many.
struct DynamicMap {
  /// By byte.
  std::array<float, 256> values;
  /// Magnitudes by rank: 0, then all that are greater, ascending, up to 1.
  /// Between ranks k and k + 1 the border is middles[k]; the last is infinite.
  std::array<float, 256> middles;
  /// A magnitude's greatest rank of those whose border is not above the begin
  /// of its cell: of the numbers whose upper 16 bits are kFirstCell + i. No
  /// cell has more than one border in it.
  static constexpr uint32_t kFirstCell = 0x3380, kLastCell = 0x3F80;
  std::array<int32_t, kLastCell - kFirstCell + 1> cells;
  int32_t lastNegative; ///< the greatest rank that negative numbers have
};

const DynamicMap &getDynamicMap(bool isSigned);

/// By byte: the numbers of float8_e4m3fn.
const std::array<float, 256> &getFloat8Values();

} // namespace fsdp

#endif // FSDP_SUPPORT_BLOCKCODES_H
