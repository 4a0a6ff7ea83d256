//===- CheckpointedModules.cpp - Which modules are recomputed -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/memory/CheckpointedModules.h"

#include "passes/analysis/NamePatterns.h"
#include "passes/analysis/WrapPolicies.h"
#include "support/Pattern.h"

#include "llvm/ADT/DenseSet.h"

using namespace mlir;
using namespace fsdp;

static LogicalResult chooseByName(ModuleOp module, const ModuleTree &tree,
                                  ArrayAttr patterns,
                                  llvm::DenseSet<unsigned> &chosen) {
  std::vector<std::string> paths;
  for (const ModuleTree::Node &node : tree.getNodes().drop_front())
    paths.push_back(node.path);
  for (StringRef pattern : getTexts(patterns)) {
    bool isUsed = false;
    for (auto [i, path] : llvm::enumerate(paths))
      if (matchesPattern(pattern.str(), path)) {
        chosen.insert(i + 1);
        isUsed = true;
      }
    if (!isUsed)
      return module.emitError("expected modules to compute again whose paths "
                              "match '")
             << pattern << "', found none" << suggestNames(pattern, paths);
  }
  return success();
}

/// Of `chosen` the outermost ones, in the order of the tree.
static SmallVector<unsigned>
getOutermost(const ModuleTree &tree, const llvm::DenseSet<unsigned> &chosen) {
  SmallVector<unsigned> outermost;
  llvm::DenseSet<unsigned> covered;
  // Parents come before their children.
  for (auto [i, node] : llvm::enumerate(tree.getNodes())) {
    bool isInner = i != 0 && covered.contains(node.parent);
    if (!isInner && !chosen.contains(i))
      continue;
    covered.insert(i);
    if (!isInner)
      outermost.push_back(i);
  }
  return outermost;
}

FailureOr<SmallVector<std::string>>
fsdp::getCheckpointedModules(ModuleOp module) {
  ModuleTree tree(module);
  llvm::DenseSet<unsigned> all;
  if (auto told = findSetting<RecomputeAttr>(module)) {
    llvm::DenseSet<unsigned> chosen;
    if (told.getModules()) {
      if (failed(chooseByName(module, tree, told.getModules(), chosen)))
        return failure();
    } else {
      SmallVector<unsigned> nodes;
      if (failed(chooseModules(tree, getSetting<BucketsAttr>(module), nodes,
                               [&] { return module.emitError(); })))
        return failure();
      chosen.insert_range(nodes);
    }
    for (auto [i, node] : llvm::enumerate(getOutermost(tree, chosen)))
      if ((i + 1) % told.getEvery() == 0)
        all.insert(node);
  }
  SmallVector<StringRef> regions =
      getTexts(module->getAttrOfType<ArrayAttr>(kCheckpointsAttr));
  for (auto [i, node] : llvm::enumerate(tree.getNodes()))
    if (llvm::is_contained(regions, StringRef(node.path)))
      all.insert(i);
  return llvm::map_to_vector(getOutermost(tree, all), [&](unsigned node) {
    return tree.getNodes()[node].path;
  });
}
