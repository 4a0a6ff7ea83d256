//===- Spaces.h - Rows and columns of a group's values ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// All operators of a group run over the same rows. A value that one of them
// makes has all rows, or one that is the same for all, and in each a number of
// columns; its element (r, c) is the tensor's element r * columns + c, in the
// order of indices. So views that keep this order are the identity.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_KERNELS_SPACES_H
#define FSDP_PASSES_KERNELS_SPACES_H

#include "passes/kernels/Rules.h"

#include "llvm/ADT/DenseMap.h"

namespace fsdp {

/// An operator of a group.
struct KernelMember {
  mlir::Operation *op;
  const KernelRule *rule;
  KernelFrame frame;
  bool isOneRow = false; ///< set by assignRows()
};

/// How the elements of a shape belong to those of one that it is broadcast to.
enum class KernelFit {
  Same,   ///< one for each
  Row,    ///< one for each row
  Column, ///< one for each column
  Single, ///< one for all
  Other,  ///< in no way that kernels know
};
KernelFit findFit(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> frame,
                  int64_t rows);

/// The members by what they make.
using KernelMakers = llvm::DenseMap<mlir::Value, KernelMember *>;

/// The numbers of rows that members ask for, the greatest first: none, if it is
/// all the same to them.
llvm::SmallVector<int64_t> listRows(llvm::MutableArrayRef<KernelMember> members,
                                    const KernelMakers &makers);

/// Finds out which members have one row, if the others have so many; fails
/// where a member can have neither.
mlir::LogicalResult assignRows(llvm::MutableArrayRef<KernelMember> members,
                               const KernelMakers &makers, int64_t rows);

} // namespace fsdp

#endif // FSDP_PASSES_KERNELS_SPACES_H
