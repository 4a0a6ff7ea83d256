//===- WrapPolicies.cpp - Which modules form buckets ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/analysis/WrapPolicies.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace fsdp;

using EmitError = llvm::function_ref<InFlightDiagnostic()>;

static bool isNumber(StringRef name) {
  return !name.empty() && llvm::all_of(name, llvm::isDigit);
}

static LogicalResult chooseBlocks(const ModuleTree &tree,
                                  SmallVectorImpl<unsigned> &chosen) {
  SmallVector<unsigned> worklist{0};
  while (!worklist.empty()) {
    const ModuleTree::Node &node = tree.getNodes()[worklist.pop_back_val()];
    llvm::MapVector<StringRef, SmallVector<unsigned>> numbered;
    SmallVector<unsigned> others;
    for (unsigned child : node.children)
      if (isNumber(tree.getName(child)) &&
          !tree.getAllParameters(child).empty())
        numbered[tree.getNodes()[child].className].push_back(child);
      else
        others.push_back(child);
    for (auto &[className, blocks] : numbered)
      llvm::append_range(blocks.size() > 1 ? chosen : others, blocks);
    llvm::append_range(worklist, others);
  }
  return success();
}

static LogicalResult chooseClasses(const ModuleTree &tree,
                                   ArrayRef<StringRef> classes,
                                   SmallVectorImpl<unsigned> &chosen,
                                   EmitError emitError) {
  if (classes.empty())
    return emitError() << "wrap policy 'classes' expects the classes to wrap";
  llvm::StringSet<> missing;
  missing.insert_range(classes);
  llvm::SetVector<StringRef> known;
  for (auto [i, node] : llvm::enumerate(tree.getNodes())) {
    if (!node.className.empty())
      known.insert(node.className);
    if (!llvm::is_contained(classes, StringRef(node.className)))
      continue;
    missing.erase(node.className);
    if (i != 0)
      chosen.push_back(i);
  }
  for (StringRef name : classes)
    if (missing.contains(name))
      return emitError() << "expected a module of class '" << name
                         << "' to wrap, found only the classes "
                         << llvm::join(known, ", ");
  return success();
}

namespace {

/// FSDP's recursive rule: children first; a module becomes a bucket if what is
/// left to it is large enough. Containers without a forward of their own are
/// looked through.
class SizeRule {
public:
  SizeRule(const ModuleTree &tree, int64_t minParams,
           SmallVectorImpl<unsigned> &chosen)
      : tree(tree), minParams(minParams), chosen(chosen) {}

  /// Returns the number of parameters that chosen modules hold.
  int64_t visit(unsigned node) {
    int64_t size = 0;
    for (StateOp state : tree.getAllParameters(node))
      size +=
          (state.getQuantized() ? state.getModelType() : state.getGlobalType())
              .getNumElements();
    if (size < minParams)
      return 0;
    int64_t wrapped = 0;
    for (unsigned child : tree.getNodes()[node].children)
      wrapped += visit(child);
    StringRef className = tree.getNodes()[node].className;
    bool container = className.empty() || className == "ModuleList" ||
                     className == "ModuleDict";
    if (node == 0 || container || size - wrapped < minParams)
      return wrapped;
    chosen.push_back(node);
    return size;
  }

private:
  const ModuleTree &tree;
  int64_t minParams;
  SmallVectorImpl<unsigned> &chosen;
};

} // namespace

static LogicalResult chooseBySize(const ModuleTree &tree, int64_t minParams,
                                  SmallVectorImpl<unsigned> &chosen,
                                  EmitError emitError) {
  if (minParams < 1)
    return emitError() << "wrap policy 'size' expects a positive number of "
                          "parameters, found "
                       << minParams;
  SizeRule(tree, minParams, chosen).visit(0);
  return success();
}

LogicalResult fsdp::chooseModules(const ModuleTree &tree, BucketsAttr buckets,
                                  SmallVectorImpl<unsigned> &chosen,
                                  EmitError emitError) {
  switch (buckets.getPolicy()) {
  case BucketPolicy::Blocks:
    return chooseBlocks(tree, chosen);
  case BucketPolicy::Classes:
    return chooseClasses(tree, getTexts(buckets.getClasses()), chosen,
                         emitError);
  case BucketPolicy::Size:
    return chooseBySize(tree, buckets.getMinParams(), chosen, emitError);
  case BucketPolicy::None:
    return success();
  }
  llvm_unreachable("all policies choose");
}
