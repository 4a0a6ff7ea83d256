//===- StepModel.cpp - A step whose decisions can be changed --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "decide/StepModel.h"

#include "decide/StepProgram.h"
#include "plan/Programs.h"

#include <algorithm>
#include <cmath>
#include <set>

using namespace fsdp;

static bool isNear(double a, double b) {
  return std::abs(a - b) <= 1e-9 + 1e-6 * std::abs(a);
}

bool BucketFacts::isLike(const BucketFacts &other) const {
  return isRegathered == other.isRegathered && gathered == other.gathered &&
         isNear(transfer, other.transfer);
}

bool BlockFacts::isLike(const BlockFacts &other) const {
  return saved == other.saved && dropped == other.dropped &&
         selected == other.selected && isNear(forward, other.forward);
}

StepModel::StepModel(const plan::PlanT &plan, const Cluster &cluster,
                     std::vector<std::string> blocks) {
  std::vector<std::string> names;
  for (const auto &state : plan.states)
    if (!state->bucket.empty() &&
        std::ranges::find(names, state->bucket) == names.end())
      names.push_back(state->bucket);
  for (const std::string &name : names)
    bucketFacts.push_back({.name = name});
  if (blocks.empty())
    blocks = names;
  for (const std::string &name : blocks)
    blockFacts.push_back({.name = name});
  uint32_t microBatches =
      plan.training ? plan.training->gradient_accumulation_steps : 1;
  std::set<Entry> seen;
  for (const auto &program : plan.programs) {
    Entry entry = getEntry(*program);
    if (entry.kind != plan::ProgramKind::train || !seen.insert(entry).second)
      continue;
    uint32_t runs = 1;
    if (entry.part == plan::StepPart::middle)
      runs = microBatches > 2 ? microBatches - 2 : 0;
    programs.push_back(std::make_unique<StepProgram>(plan, *program, cluster,
                                                     runs, names, blocks));
    // Bytes and seconds of the first count: others are like it.
    if (programs.size() == 1)
      programs.back()->addFacts(bucketFacts, blockFacts);
  }
  uint64_t peak = 0;
  for (const auto &program : programs)
    peak = std::max(peak, program->evaluate(none()).peak);
  if (plan.memory)
    base = int64_t(plan.memory->peak) - int64_t(peak);
}

StepModel::~StepModel() = default;

Decisions StepModel::none() const {
  Decisions decisions;
  decisions.kept.assign(bucketFacts.size(), false);
  for (const BucketFacts &each : bucketFacts)
    decisions.prefetch.push_back(each.prefetch);
  decisions.recomputed.assign(blockFacts.size(), Recomputed::none);
  decisions.offloaded.assign(blockFacts.size(), false);
  return decisions;
}

Outcome StepModel::evaluate(const Decisions &decisions) const {
  Outcome sum;
  for (const auto &program : programs) {
    Outcome each = program->evaluate(decisions);
    sum.seconds += program->runs * each.seconds;
    sum.exposed += program->runs * each.exposed;
    sum.peak = std::max(sum.peak, each.peak);
  }
  sum.peak =
      static_cast<uint64_t>(std::max<int64_t>(0, int64_t(sum.peak) + base));
  return sum;
}

MemoryProfile StepModel::profile(const Decisions &decisions) const {
  MemoryProfile profile = programs.front()->profile(decisions);
  for (std::vector<uint64_t> *uses : {&profile.at, &profile.again})
    for (uint64_t &use : *uses)
      if (use != 0 || uses == &profile.at)
        use = static_cast<uint64_t>(std::max<int64_t>(0, int64_t(use) + base));
  return profile;
}
