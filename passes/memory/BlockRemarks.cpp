//===- BlockRemarks.cpp - What blocks keep for backward -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/memory/BlockRemarks.h"

#include "support/Format.h"

using namespace mlir;
using namespace fsdp;

BlockRemarks::BlockRemarks(ModuleOp module, func::FuncOp func,
                           ArrayRef<CheckpointedModule> blocks)
    : func(func) {
  if (!wantsRemarks(func))
    return;
  SmallVector<RecomputeAttr> rules = getRecomputeRules(module);
  isTold = !rules.empty();
  for (const CheckpointedModule &each : blocks) {
    recomputed[each.path] = isTold ? rules[each.rule] : RecomputeAttr();
    modules.push_back(each.path);
  }
  for (std::string &bucket : listBucketNames(module))
    if (!recomputed.contains(bucket))
      modules.push_back(std::move(bucket));
  before = listKeptActivations(func, modules);
  // Ops of forward may be gone by the end.
  for (const KeptActivations &each : before)
    locations.push_back(getModuleLocation(each.module, each.first));
}

void BlockRemarks::emit() const {
  if (before.empty())
    return;
  llvm::StringMap<int64_t> after;
  for (const KeptActivations &each : listKeptActivations(func, modules))
    after[each.module] = each.bytes;
  for (auto [each, location] : llvm::zip_equal(before, locations))
    emit(each, location, after.lookup(each.module));
}

void BlockRemarks::emit(const KeptActivations &block, Location location,
                        int64_t left) const {
  auto size = [](int64_t bytes) {
    return formatBytes(static_cast<uint64_t>(bytes));
  };
  if (!recomputed.contains(block.module)) {
    remark::missed(location, nameDecision("recompute", "Kept", func))
        << "'" + block.module + "' keeps " + size(block.bytes) +
               " of activations from forward to backward"
        << remark::reason("{0}", isTold
                                     ? "activation_checkpointing leaves it out"
                                     : "activation_checkpointing is not set");
    return;
  }
  RecomputeAttr told = recomputed.lookup(block.module);
  bool isSelective = told && told.getPolicy() == RecomputePolicy::Selective;
  remark::passed(location, nameDecision("recompute", "Recomputed", func))
      << "'" + block.module + "' is computed again for backward" +
             (isSelective ? " but for what the policy saves" : "") +
             ": it keeps " + size(left) + " of " + size(block.bytes) +
             " until then"
      << remark::reason("{0}", told ? "activation_checkpointing names it"
                                    : "the model checkpoints it itself");
}
