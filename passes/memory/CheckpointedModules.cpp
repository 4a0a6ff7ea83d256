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

SmallVector<RecomputeAttr> fsdp::getRecomputeRules(ModuleOp module) {
  SmallVector<RecomputeAttr> rules;
  if (auto told = findSetting<RecomputeAttr>(module)) {
    rules.push_back(told);
    llvm::append_range(rules, getList<RecomputeAttr>(told.getAlso()));
  }
  return rules;
}

/// Adds what one rule chooses, with its number.
static LogicalResult addChosen(ModuleOp module, const ModuleTree &tree,
                               RecomputeAttr rule, size_t number,
                               llvm::DenseMap<unsigned, size_t> &all) {
  llvm::DenseSet<unsigned> chosen;
  if (rule.getModules()) {
    if (failed(chooseByName(module, tree, rule.getModules(), chosen)))
      return failure();
  } else {
    SmallVector<unsigned> nodes;
    if (failed(chooseModules(tree, getSetting<BucketsAttr>(module), nodes,
                             [&] { return module.emitError(); })))
      return failure();
    chosen.insert_range(nodes);
  }
  for (auto [i, node] : llvm::enumerate(getOutermost(tree, chosen)))
    if ((i + 1) % rule.getEvery() == 0)
      all[node] = number;
  return success();
}

FailureOr<SmallVector<CheckpointedModule>>
fsdp::getCheckpointedModules(ModuleOp module) {
  ModuleTree tree(module);
  SmallVector<RecomputeAttr> rules = getRecomputeRules(module);
  llvm::DenseMap<unsigned, size_t> ruleOf; // by node
  for (auto [i, rule] : llvm::enumerate(rules))
    if (failed(addChosen(module, tree, rule, i, ruleOf)))
      return failure();
  SmallVector<StringRef> regions =
      getTexts(module->getAttrOfType<ArrayAttr>(kCheckpointsAttr));
  for (auto [i, node] : llvm::enumerate(tree.getNodes()))
    if (llvm::is_contained(regions, StringRef(node.path)))
      ruleOf.try_emplace(i, rules.empty() ? 0 : rules.size() - 1);
  llvm::DenseSet<unsigned> all;
  for (auto [node, rule] : ruleOf)
    all.insert(node);
  return llvm::map_to_vector(getOutermost(tree, all), [&](unsigned node) {
    return CheckpointedModule{tree.getNodes()[node].path, ruleOf.at(node)};
  });
}
