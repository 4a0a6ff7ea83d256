//===- ModuleTree.cpp - The modules of a model ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/analysis/ModuleTree.h"

#include "passes/analysis/ModulePaths.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace fsdp;

ModuleTree::ModuleTree(ModuleOp module) {
  nodes.emplace_back();
  byPath[""] = 0;
  for (auto row : module.getOps<ModuleInfoOp>())
    nodes[add(row.getPath())].className = row.getClassName().str();
  for (StateOp state : module.getOps<StateOp>()) {
    if (!isParameter(state) || state.isFlat())
      continue;
    for (StringRef name : state.getAllNames()) {
      Node &owner = nodes[add(getParentPath(name))];
      if (!llvm::is_contained(owner.parameters, state))
        owner.parameters.push_back(state);
    }
  }
}

unsigned ModuleTree::add(StringRef path) {
  if (auto it = byPath.find(path); it != byPath.end())
    return it->second;
  unsigned parent = add(getParentPath(path));
  unsigned node = nodes.size();
  nodes.emplace_back();
  nodes[node].path = path.str();
  nodes[node].parent = parent;
  nodes[parent].children.push_back(node);
  byPath[path] = node;
  return node;
}

StringRef ModuleTree::getName(unsigned node) const {
  StringRef path = nodes[node].path;
  return path.substr(path.rfind('.') + 1);
}

unsigned ModuleTree::getOwner(StateOp parameter) const {
  std::optional<unsigned> owner;
  for (StringRef name : parameter.getAllNames()) {
    unsigned node = byPath.at(getParentPath(name));
    if (!owner) {
      owner = node;
      continue;
    }
    // Children have greater numbers than their parents: climb from the
    // greater one until both paths meet.
    while (*owner != node) {
      unsigned &lower = *owner > node ? *owner : node;
      lower = nodes[lower].parent;
    }
  }
  return *owner;
}

SmallVector<StateOp> ModuleTree::getAllParameters(unsigned node) const {
  llvm::SetVector<Operation *> all;
  SmallVector<unsigned> worklist{node};
  while (!worklist.empty()) {
    const Node &next = nodes[worklist.pop_back_val()];
    for (StateOp state : next.parameters)
      all.insert(state);
    llvm::append_range(worklist, llvm::reverse(next.children));
  }
  return llvm::map_to_vector(all,
                             [](Operation *op) { return cast<StateOp>(op); });
}
