//===- Reductions.h - Sums and greatest numbers of rows ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_KERNELS_EMIT_REDUCTIONS_H
#define FSDP_KERNELS_EMIT_REDUCTIONS_H

#include "kernels/emit/Code.h"
#include "kernels/emit/Lanes.h"
#include "plan/Kernels.h"

#include <vector>

namespace fsdp {

/// A reduction over a row's columns: 64 partial results whatever a vector's
/// width, in registers or, `inMemory`, side by side in the call's own memory,
/// where a loop finds them by the column's number.
class Reduction {
public:
  Reduction(Code &code, KernelOpKind kind, bool inMemory);

  /// Begins a row.
  void begin();
  /// Takes a vector of the target's lanes, whose first lane would be column
  /// `column`; in registers `lane` is that, modulo 64.
  void take(llvm::Value *value, llvm::Value *column, unsigned lane,
            const Lanes &lanes);
  /// The row's result, a scalar.
  llvm::Value *finish();

private:
  llvm::Value *combine(llvm::Value *x, llvm::Value *y);
  llvm::Constant *identity(llvm::Type *type);

  Code &code;
  bool isSum, inMemory;
  llvm::Type *vector;
  std::vector<llvm::Value *> partials; ///< addresses
};

} // namespace fsdp

#endif // FSDP_KERNELS_EMIT_REDUCTIONS_H
