//===- AssignBuckets.cpp - Who is moved with whom ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/Passes.h"
#include "passes/analysis/ModulePaths.h"
#include "passes/analysis/NamePatterns.h"
#include "passes/analysis/Outputs.h"
#include "passes/analysis/WrapPolicies.h"
#include "support/Pattern.h"

#include "llvm/ADT/DenseSet.h"

using namespace mlir;
using namespace fsdp;

namespace fsdp {
#define GEN_PASS_DEF_ASSIGNBUCKETS
#include "passes/Passes.h.inc"
} // namespace fsdp

namespace {

/// "layers.0" matches "layers.0.weight", too.
bool matchesNameOrModule(const std::string &pattern, StringRef name) {
  return findAround(
             name,
             [&](StringRef at) { return matchesPattern(pattern, at.str()); })
      .has_value();
}

bool takes(BucketAttr bucket, StateOp parameter) {
  return llvm::any_of(parameter.getAllNames(), [&](StringRef name) {
    return llvm::any_of(getTexts(bucket.getPatterns()), [&](StringRef pattern) {
      return matchesNameOrModule(pattern.str(), name);
    });
  });
}

struct AssignBuckets final : fsdp::impl::AssignBucketsBase<AssignBuckets> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    ModuleTree tree(module);
    auto buckets = getSetting<BucketsAttr>(module);
    SmallVector<BucketAttr> byName = getList<BucketAttr>(buckets.getNamed());
    for (BucketAttr bucket : byName)
      if (failed(check(bucket)))
        return signalPassFailure();
    SmallVector<unsigned> nodes;
    if (failed(chooseModules(tree, buckets, nodes,
                             [&] { return module.emitError(); })))
      return signalPassFailure();
    llvm::DenseSet<unsigned> chosen(nodes.begin(), nodes.end());
    for (StateOp state : module.getOps<StateOp>()) {
      if (!isParameter(state))
        continue;
      auto takesIt = [&](BucketAttr bucket) { return takes(bucket, state); };
      if (auto *found = llvm::find_if(byName, takesIt); found != byName.end()) {
        state.setBucketAttr(found->getName());
        continue;
      }
      std::string bucket = getBucket(tree, chosen, tree.getOwner(state));
      if (bucket != kRootBucket && llvm::any_of(byName, [&](BucketAttr each) {
            return each.getName() == bucket;
          })) {
        state.emitOpError("would be in the bucket '")
            << bucket
            << "' of its module, which is also the name of one with "
               "patterns that do not match it; call that another "
               "name";
        return signalPassFailure();
      }
      state.setBucket(bucket);
    }
  }

private:
  LogicalResult check(BucketAttr bucket) {
    StringRef called = bucket.getName().getValue();
    if (called == kMetricsBucket)
      return getOperation().emitError("expected another name of the bucket '")
             << called << "', which is that of the metrics";
    std::vector<std::string> names = getParameterNames(getOperation());
    for (StringRef pattern : getTexts(bucket.getPatterns()))
      if (llvm::none_of(names, [&](StringRef name) {
            return matchesNameOrModule(pattern.str(), name);
          }))
        return getOperation().emitError("the pattern '")
               << pattern << "' of the bucket '" << called
               << "' matches no parameter and no module that has one"
               << suggestNames(pattern, names);
    return success();
  }

  // A module that is itself called "root" must not join the root bucket.
  static std::string getBucket(const ModuleTree &tree,
                               const llvm::DenseSet<unsigned> &chosen,
                               unsigned node) {
    for (; node != 0; node = tree.getNodes()[node].parent)
      if (chosen.contains(node)) {
        const std::string &path = tree.getNodes()[node].path;
        return path == kRootBucket ? path + "." : path;
      }
    return kRootBucket.str();
  }
};

} // namespace
