//===- StateAppender.h - New states of a module -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_ANALYSIS_STATE_APPENDER_H
#define FSDP_PASSES_ANALYSIS_STATE_APPENDER_H

#include "ir/fsdp/Fsdp.h"

#include "mlir/IR/Builders.h"

namespace fsdp {

/// Adds states behind a module's others, in the order of the calls, also while
/// programs come and go. No one else may add or erase states meanwhile.
class StateAppender {
public:
  explicit StateAppender(mlir::ModuleOp module);

  /// A state of that global type, whose name no other has. `of` is the state
  /// that it belongs to, if any, as which it is split if it has its shape;
  /// without `placement` each rank holds all of the type.
  StateOp append(mlir::Location loc, const llvm::Twine &name, Role role,
                 mlir::RankedTensorType type, StateOp of = {},
                 PlacementAttrInterface placement = {});

private:
  mlir::ModuleOp module;
  mlir::OpBuilder builder;
  StateOp last; ///< null in a module without states
};

} // namespace fsdp

#endif // FSDP_PASSES_ANALYSIS_STATE_APPENDER_H
