//===- BlockForm.h - How blocks of codes are laid out -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A frozen matrix is held as blocks of neighbouring elements of the model's
// tensor in row-major order, whose codes share a scale. A row of bytes is
//
//   a block:     its scale, an f32, and its codes, or,
//   256 blocks,  where scales are coded as well: an f32 that the codes of the
//                scales share, an f32 that all scales of the tensor are
//                relative to, 256 codes of scales, and the codes of all blocks.
//
// What of the last row lies behind the tensor is coded as zero.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_SUPPORT_BLOCKFORM_H
#define FSDP_SUPPORT_BLOCKFORM_H

#include "support/HostDevice.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace fsdp {

/// How elements are coded. Numbers are those of the artifact.
enum class BlockKind : uint8_t { Nf4 = 0, Int8 = 1, Fp4 = 2 };

/// "nf4", "int8", "fp4".
std::string_view getName(BlockKind kind);

struct BlockForm {
  BlockKind kind = BlockKind::Nf4;
  int64_t elements = kUsual; ///< of a block
  bool hasCodedScales = false;

  static constexpr int64_t kUsual = 64;
  /// Blocks have a power of two of elements between these.
  static constexpr int64_t kLeast = 32, kGreatest = 4096;
  /// Blocks whose scales are coded together.
  static constexpr int64_t kTogether = 256;

  bool operator==(const BlockForm &) const = default;

  constexpr bool isValid() const {
    return kind <= BlockKind::Fp4 && elements >= kLeast &&
           elements <= kGreatest && (elements & (elements - 1)) == 0;
  }
  /// Of a block.
  FSDP_HOST_DEVICE constexpr int64_t getCodeBytes() const {
    return kind == BlockKind::Int8 ? elements : elements / 2;
  }
  FSDP_HOST_DEVICE constexpr int64_t getRowBlocks() const {
    return hasCodedScales ? kTogether : 1;
  }
  constexpr int64_t getRowElements() const { return getRowBlocks() * elements; }
  /// In front of a row's codes.
  FSDP_HOST_DEVICE constexpr int64_t getHeadBytes() const {
    return hasCodedScales ? 2 * int64_t(sizeof(float)) + kTogether
                          : int64_t(sizeof(float));
  }
  FSDP_HOST_DEVICE constexpr int64_t getRowBytes() const {
    return getHeadBytes() + getRowBlocks() * getCodeBytes();
  }
  /// Of a tensor of so many elements.
  constexpr int64_t countBlocks(int64_t count) const {
    return count / elements + (count % elements != 0 ? 1 : 0);
  }
  constexpr int64_t countRows(int64_t count) const {
    return count / getRowElements() + (count % getRowElements() != 0 ? 1 : 0);
  }
};

/// "nf4"; of other forms than the usual one also how long blocks are, and
/// whether scales are coded: "nf4-128", "nf4-double", "fp4-4096-double".
std::string getName(const BlockForm &form);

} // namespace fsdp

#endif // FSDP_SUPPORT_BLOCKFORM_H
