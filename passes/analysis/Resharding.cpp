//===- Resharding.cpp - What is gathered again for backward ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/analysis/Resharding.h"

#include "passes/analysis/NamePatterns.h"
#include "passes/analysis/Outputs.h"

using namespace mlir;
using namespace fsdp;

int64_t fsdp::getReshardRanks(BucketsAttr told, StringRef bucket) {
  bool isKept =
      told.getReshard() == ReshardMode::None ||
      (told.getReshard() == ReshardMode::AllButRoot && bucket == kRootBucket);
  int64_t chosen = isKept ? 1 : told.getReshardRanks();
  for (RuleAttr rule : getList<RuleAttr>(told.getRules()))
    if (rule.getReshard() && matchesAny(rule.getBuckets(), bucket))
      chosen = *rule.getReshard();
  return chosen;
}
