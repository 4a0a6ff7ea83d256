//===- QuantizedBlocks.h - Frozen numbers in blocks of codes ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A frozen matrix is held as blocks of 64 neighbouring elements of the model's
// tensor in row-major order. A block is a row of bytes: its scale, an f32, and
// its codes. What of the last block lies behind the tensor is coded as zero.
//
// nf4: the scale is the greatest absolute value; a code is one of the 16
// numbers of 4-bit NormalFloat (Dettmers et al., "QLoRA", arXiv:2305.14314,
// appendix E), the one nearest to element / scale, of two the lower. Two codes
// a byte, the first in its upper half, as bitsandbytes packs them.
//
// int8: the scale is the greatest absolute value / 127; a code is element /
// scale, rounded to the nearest whole number, ties to even.
//
// A number is its code's times the scale, in f32.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_SUPPORT_QUANTIZEDBLOCKS_H
#define FSDP_SUPPORT_QUANTIZEDBLOCKS_H

#include <array>
#include <cstdint>
#include <string_view>

namespace fsdp {

/// How elements are coded. Numbers are those of the artifact.
enum class BlockKind : uint8_t { Nf4 = 0, Int8 = 1 };

/// Elements of a block.
inline constexpr int64_t kQuantizedElements = 64;

/// Bytes of a block.
constexpr int64_t getBlockBytes(BlockKind kind) {
  return int64_t(sizeof(float)) +
         (kind == BlockKind::Nf4 ? kQuantizedElements / 2 : kQuantizedElements);
}

/// Blocks of a tensor of so many elements.
constexpr int64_t countBlocks(int64_t elements) {
  return elements / kQuantizedElements +
         (elements % kQuantizedElements != 0 ? 1 : 0);
}

/// "nf4", "int8".
std::string_view getName(BlockKind kind);

/// The numbers that nf4 codes stand for, ascending.
const std::array<float, 16> &getNf4Values();

/// Codes `elements` numbers into countBlocks(elements) blocks at `to`. Returns
/// the number of the first element that is a NaN or infinite and has no code,
/// or -1; of what lies behind it nothing is written.
int64_t quantizeBlocks(BlockKind kind, const float *from, int64_t elements,
                       uint8_t *to);

/// The numbers of `blocks` whole blocks.
void dequantizeBlocks(BlockKind kind, const uint8_t *from, int64_t blocks,
                      float *to);

} // namespace fsdp

#endif // FSDP_SUPPORT_QUANTIZEDBLOCKS_H
