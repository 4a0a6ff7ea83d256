//===- States.h - The states of a module ------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_ANALYSIS_STATES_H
#define FSDP_PASSES_ANALYSIS_STATES_H

#include "ir/fsdp/Fsdp.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

namespace fsdp {

inline mlir::FlatSymbolRefAttr refTo(StateOp state) {
  return mlir::FlatSymbolRefAttr::get(state.getSymNameAttr());
}

/// The states of a module by name and number. Valid until one is added.
class StateTable {
public:
  explicit StateTable(mlir::ModuleOp module);

  llvm::ArrayRef<StateOp> getStates() const { return states; }
  /// Null if there is none.
  StateOp lookup(mlir::StringAttr name) const;
  StateOp lookup(mlir::FlatSymbolRefAttr ref) const {
    return ref ? lookup(ref.getAttr()) : StateOp();
  }
  /// The state that an argument is bound to, or null.
  StateOp lookup(mlir::func::FuncOp func, unsigned argument) const {
    return lookup(
        func.getArgAttrOfType<mlir::FlatSymbolRefAttr>(argument, kStateAttr));
  }
  /// What lies in a flat state, in its order; nothing for other states.
  llvm::ArrayRef<StateOp> getMembers(StateOp flat) const;
  /// Position in the table, which is the order of a bucket's members.
  unsigned getIndex(StateOp state) const { return index.at(state); }

private:
  llvm::SmallVector<StateOp> states;
  llvm::DenseMap<mlir::StringAttr, StateOp> byName;
  llvm::DenseMap<mlir::Operation *, unsigned> index;
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<StateOp>> members;
};

/// Gives `func` an argument for each state, bound to it, behind those of other
/// states and in front of the inputs.
llvm::SmallVector<mlir::BlockArgument>
addStateArguments(mlir::func::FuncOp func, llvm::ArrayRef<StateOp> states);

/// The gathered tensors that the program leaves in states, for further
/// micro-batches.
llvm::DenseSet<mlir::Value> getKept(mlir::func::FuncOp func,
                                    const StateTable &states);

} // namespace fsdp

#endif // FSDP_PASSES_ANALYSIS_STATES_H
