//===- ForwardSlice.h - Where forward ends ----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_ANALYSIS_FORWARD_SLICE_H
#define FSDP_PASSES_ANALYSIS_FORWARD_SLICE_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseSet.h"

namespace fsdp {

/// What the loss, other outputs and changed buffers of a program need, the
/// metrics apart. Forward is everything up to the last such op; what follows is
/// backward and the optimizer. Linear time.
class ForwardSlice {
public:
  explicit ForwardSlice(mlir::func::FuncOp func);

  /// The last op that forward needs; null if it computes nothing.
  mlir::Operation *getLast() const { return last; }
  bool contains(mlir::Operation *op) const { return slice.contains(op); }

private:
  llvm::DenseSet<mlir::Operation *> slice;
  mlir::Operation *last = nullptr;
};

} // namespace fsdp

#endif // FSDP_PASSES_ANALYSIS_FORWARD_SLICE_H
