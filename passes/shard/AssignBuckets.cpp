//===- AssignBuckets.cpp - Who is moved with whom ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/Passes.h"
#include "passes/analysis/Programs.h"
#include "passes/analysis/WrapPolicies.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace fsdp;

namespace fsdp {
#define GEN_PASS_DEF_ASSIGNBUCKETS
#include "passes/Passes.h.inc"
} // namespace fsdp

namespace {

struct AssignBuckets final : fsdp::impl::AssignBucketsBase<AssignBuckets> {
  using Base::Base;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    ModuleTree tree(module);
    FailureOr<llvm::DenseSet<unsigned>> chosen = choose(tree);
    if (failed(chosen))
      return signalPassFailure();
    for (StateOp state : module.getOps<StateOp>())
      if (isParameter(state))
        state.setBucket(getBucket(tree, *chosen, tree.getOwner(state)));
  }

private:
  FailureOr<llvm::DenseSet<unsigned>> choose(const ModuleTree &tree) {
    ArrayRef<WrapPolicy> policies = getWrapPolicies();
    const auto *found = llvm::find_if(policies, [&](const WrapPolicy &each) {
      return each.name == policy.getValue();
    });
    if (found == policies.end()) {
      auto names = llvm::map_range(
          policies, [](const WrapPolicy &each) { return each.name; });
      return getOperation().emitError()
             << "expected a wrap policy out of " << llvm::join(names, ", ")
             << ", found '" << policy.getValue() << "'";
    }
    SmallVector<std::string> names(classes.begin(), classes.end());
    SmallVector<unsigned> nodes;
    if (failed(found->choose(tree, {names, minParams}, nodes,
                             [&] { return getOperation().emitError(); })))
      return failure();
    return llvm::DenseSet<unsigned>(nodes.begin(), nodes.end());
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
