//===- KeptStates.h - States that an optimizer keeps ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_SHARD_KEPTSTATES_H
#define FSDP_PASSES_SHARD_KEPTSTATES_H

#include "passes/analysis/StateAppender.h"
#include "passes/analysis/States.h"
#include "passes/shard/MomentStorage.h"

namespace fsdp {

/// The states kept of a parameter.
struct KeptStates {
  llvm::SmallVector<StateOp, 2> moments;
  llvm::SmallVector<StateOp, 2> scales; ///< of moments that are codes
  MomentStorage storage;
};

/// Declares the states that are kept of parameters. No others are added while
/// it lives but through its appender.
class KeptStatesDeclarer {
public:
  KeptStatesDeclarer(mlir::ModuleOp module, StateAppender &appender)
      : module(module), appender(appender), table(module) {}

  /// Those of a parameter, and of its members if it is flat, called as
  /// `moments` and what they are stored as. Says why not where it fails.
  mlir::FailureOr<KeptStates> declare(StateOp param,
                                      llvm::ArrayRef<llvm::StringRef> moments,
                                      StateDType dtype);

  /// The average of a parameter, and of its members if it is flat, which each
  /// begin as what they are averages of.
  StateOp declareAverage(StateOp param, mlir::Type element);

private:
  PartAttr getPart(StateOp flat, int64_t offset);
  StateOp append(StateOp of, llvm::StringRef name, mlir::Type element);
  StateOp appendScale(StateOp of, const ScaleLayout &layout,
                      llvm::StringRef name);
  StateOp appendScale(StateOp param, llvm::ArrayRef<StateOp> members,
                      const std::string &moment, const MomentStorage &storage);

  mlir::ModuleOp module;
  StateAppender &appender;
  StateTable table;
};

} // namespace fsdp

#endif // FSDP_PASSES_SHARD_KEPTSTATES_H
