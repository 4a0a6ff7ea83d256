//===- Views.h - Which values share storage ---------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_ANALYSIS_VIEWS_H
#define FSDP_PASSES_ANALYSIS_VIEWS_H

#include "mlir/IR/Block.h"
#include "mlir/IR/Value.h"
#include "llvm/ADT/DenseMap.h"

namespace fsdp {

/// The operand whose storage `result` may share, for ops of both dialects (see
/// aten::getViewSource); null if it has its own. A wait's results are none.
mlir::Value getViewSource(mlir::OpResult result);

/// Whether the op's one result is a view.
bool isView(mlir::Operation *op);

/// What `value` is another shape of: both are contiguous, with the same
/// elements in the same order. Null if it is no such view.
mlir::Value getReshapedSource(mlir::Value value);

/// Roots of the values of one block: the value that owns a view's storage.
/// Built in one walk, in linear time.
class Views {
public:
  explicit Views(mlir::Block &block);

  /// The value whose storage `value` is or may be a view of; itself if none.
  mlir::Value getRoot(mlir::Value value) const {
    mlir::Value root = roots.lookup(value);
    return root ? root : value;
  }

private:
  llvm::DenseMap<mlir::Value, mlir::Value> roots;
};

} // namespace fsdp

#endif // FSDP_PASSES_ANALYSIS_VIEWS_H
