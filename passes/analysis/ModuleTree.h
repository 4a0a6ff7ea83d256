//===- ModuleTree.h - The modules of a model --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_ANALYSIS_MODULE_TREE_H
#define FSDP_PASSES_ANALYSIS_MODULE_TREE_H

#include "ir/fsdp/Fsdp.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringMap.h"

namespace fsdp {

/// The module tree of the captured model, with the parameters (frozen ones too)
/// that each module owns itself. Node 0 is the model. Parents come before
/// their children, siblings are in the order in which the module names them.
class ModuleTree {
public:
  struct Node {
    std::string path;      // "layers.0"; empty for the model
    std::string className; // empty if the capture did not tell
    unsigned parent = 0;
    llvm::SmallVector<unsigned> children;
    // A tied parameter is listed in each module that has a name for it.
    llvm::SmallVector<StateOp> parameters;
  };

  explicit ModuleTree(mlir::ModuleOp module);

  llvm::ArrayRef<Node> getNodes() const { return nodes; }
  /// Last component of the path.
  llvm::StringRef getName(unsigned node) const;
  /// The innermost module that contains all names of a parameter.
  unsigned getOwner(StateOp parameter) const;
  /// Parameters of the module and of all below it, each once.
  llvm::SmallVector<StateOp> getAllParameters(unsigned node) const;

private:
  unsigned add(llvm::StringRef path);

  llvm::SmallVector<Node> nodes;
  llvm::StringMap<unsigned> byPath;
};

} // namespace fsdp

#endif // FSDP_PASSES_ANALYSIS_MODULE_TREE_H
