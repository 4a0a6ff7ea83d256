//===- Lanes.h - Vectors in memory ------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_KERNELS_EMIT_LANES_H
#define FSDP_KERNELS_EMIT_LANES_H

#include "kernels/emit/Code.h"

#include <functional>

namespace fsdp {

/// Which of a vector's `width` elements there are: those from `from` on and
/// before `to`, and with a `mask` those of them that it says.
struct Lanes {
  unsigned width = 1, from = 0, to = 1;
  llvm::Value *mask = nullptr;

  bool areAll() const { return !mask && from == 0 && to == width; }
};

/// Elements of one operand, `stride` apart. `mark` is given each instruction
/// that reads or writes.
class LaneMemory {
public:
  /// Vectors are aligned to `alignment` bytes, at least that of an element.
  LaneMemory(Code &code, llvm::Type *element, int64_t stride,
             uint64_t alignment, std::function<void(llvm::Instruction *)> mark)
      : code(code), element(element), stride(stride), aligned(alignment),
        mark(std::move(mark)) {}

  /// `address` is that of the first element that there is, of lane `from`.
  /// Elements that are not there have no value that means anything.
  llvm::Value *load(llvm::Value *address, const Lanes &lanes);
  void store(llvm::Value *value, llvm::Value *address, const Lanes &lanes);

  /// A mask needs elements side by side, and a target that has masks.
  static bool takesMask(const Code &code, int64_t stride) {
    return code.target.masksMemory && stride == 1;
  }

private:
  llvm::Value *loadMasked(llvm::Value *address, const Lanes &lanes);
  llvm::Value *loadPieces(llvm::Value *address, const Lanes &lanes);
  llvm::Value *loadEach(llvm::Value *address, const Lanes &lanes);
  bool wantsMask(const Lanes &lanes) const;
  llvm::Value *maskOf(const Lanes &lanes);
  llvm::Value *behind(llvm::Value *address, int64_t elements);
  llvm::Value *loadPlain(llvm::Type *type, llvm::Value *address);
  void storePlain(llvm::Value *value, llvm::Value *address);
  llvm::Align alignmentOf(llvm::Type *type) const;

  Code &code;
  llvm::Type *element;
  int64_t stride;
  llvm::Align aligned;
  std::function<void(llvm::Instruction *)> mark;
};

} // namespace fsdp

#endif // FSDP_KERNELS_EMIT_LANES_H
