//===- AssignBuckets.cpp - Who is moved with whom ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/Passes.h"
#include "passes/analysis/NamePatterns.h"
#include "passes/analysis/Programs.h"
#include "passes/analysis/WrapPolicies.h"
#include "runtime/support/Pattern.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace fsdp;

namespace fsdp {
#define GEN_PASS_DEF_ASSIGNBUCKETS
#include "passes/Passes.h.inc"
} // namespace fsdp

namespace {

/// "layers.0" matches "layers.0.weight", too.
bool matchesNameOrModule(const std::string &pattern, StringRef name) {
  while (!matchesPattern(pattern, name.str())) {
    size_t dot = name.rfind('.');
    if (dot == StringRef::npos)
      return false;
    name = name.take_front(dot);
  }
  return true;
}

struct NamedBucket {
  std::string name;
  std::vector<std::string> patterns;

  bool takes(StateOp parameter) const {
    return llvm::any_of(parameter.getAllNames(), [&](StringRef name) {
      return llvm::any_of(patterns, [&](const std::string &pattern) {
        return matchesNameOrModule(pattern, name);
      });
    });
  }
};

struct AssignBuckets final : fsdp::impl::AssignBucketsBase<AssignBuckets> {
  using Base::Base;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    ModuleTree tree(module);
    FailureOr<std::vector<NamedBucket>> byName = parseNamed();
    if (failed(byName))
      return signalPassFailure();
    FailureOr<llvm::DenseSet<unsigned>> chosen = choose(tree);
    if (failed(chosen))
      return signalPassFailure();
    for (StateOp state : module.getOps<StateOp>()) {
      if (!isParameter(state))
        continue;
      auto takesIt = [&](const NamedBucket &bucket) {
        return bucket.takes(state);
      };
      if (auto found = llvm::find_if(*byName, takesIt);
          found != byName->end()) {
        state.setBucket(found->name);
        continue;
      }
      std::string bucket = getBucket(tree, *chosen, tree.getOwner(state));
      if (bucket != kRootBucket &&
          llvm::any_of(*byName, [&](const NamedBucket &each) {
            return each.name == bucket;
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
  FailureOr<std::vector<NamedBucket>> parseNamed() {
    std::vector<NamedBucket> buckets;
    for (StringRef text : named) {
      auto [name, rest] = text.split('=');
      SmallVector<StringRef> patterns;
      rest.split(patterns, '|', /*MaxSplit=*/-1, /*KeepEmpty=*/false);
      if (name.empty() || patterns.empty())
        return getOperation().emitError(
                   "expected a bucket as NAME=PATTERN|PATTERN, found '")
               << text << "'";
      if (name == kMetricsBucket)
        return getOperation().emitError("expected another name of the bucket '")
               << name << "', which is that of the metrics";
      buckets.push_back({name.str(), {}});
      for (StringRef pattern : patterns)
        buckets.back().patterns.push_back(pattern.str());
      if (failed(checkPatterns(buckets.back())))
        return failure();
    }
    return buckets;
  }

  LogicalResult checkPatterns(const NamedBucket &bucket) {
    std::vector<std::string> names = getParameterNames(getOperation());
    for (const std::string &pattern : bucket.patterns)
      if (llvm::none_of(names, [&](StringRef name) {
            return matchesNameOrModule(pattern, name);
          }))
        return getOperation().emitError("the pattern '")
               << pattern << "' of the bucket '" << bucket.name
               << "' matches no parameter and no module that has one"
               << suggestNames(pattern, names);
    return success();
  }

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
