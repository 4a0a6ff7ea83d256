//===- PeerRules.cpp - Schedules by the rules of others -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/auto/PeerRules.h"

#include "decide/StepModel.h"
#include "passes/analysis/Programs.h"
#include "passes/analysis/States.h"
#include "support/Format.h"
#include "tools/fsdp-opt/auto/Budget.h"
#include "tools/fsdp-opt/auto/Choices.h"

#include <algorithm>

using namespace fsdp;
using namespace mlir;

/// Bytes of DeepCompile's gathers that may be under way, and the part of the
/// device that they may fill.
static constexpr double kMostUnderWay = 4e9, kMostHeld = 0.9;
/// Bytes of one of Inductor's buckets.
static constexpr double kInductorCap = 2000e6;

PeerSchedule fsdp::applyFsdp2(const Config &config) {
  PeerSchedule result{config, "each bucket is gathered while the one before it "
                              "is in use"};
  result.config.prefetch = 1;
  return result;
}

/// For each bucket, how many in front of it may be passed until `limit` bytes
/// are under way at once.
static std::vector<uint32_t> findReach(const std::vector<BucketFacts> &buckets,
                                       double limit) {
  std::vector<uint32_t> reach;
  for (size_t i = 0; i < buckets.size(); ++i) {
    // Forward passes those in front, backward those behind.
    uint32_t ahead = 0, behind = 0;
    double bytes = double(buckets[i].gathered);
    for (size_t k = i;
         k-- > 0 && (bytes += double(buckets[k].gathered)) <= limit;)
      ++ahead;
    bytes = double(buckets[i].gathered);
    for (size_t k = i + 1;
         k < buckets.size() && (bytes += double(buckets[k].gathered)) <= limit;
         ++k)
      ++behind;
    reach.push_back(std::max(ahead, behind));
  }
  return reach;
}

PeerSchedule fsdp::applyDeepCompile(const Predicted &base, const Config &config,
                                    const Cluster &cluster) {
  StepModel model(base.file.plan(), cluster);
  uint64_t limit =
      std::min(getBudget(config, base.prediction),
               uint64_t(kMostHeld * double(base.prediction.capacity)));
  uint64_t beside = base.prediction.held() - base.prediction.planned;
  Decisions decisions = model.none();
  std::vector<uint32_t> reach = findReach(model.buckets(), kMostUnderWay);
  uint32_t most = reach.empty() ? 1 : *std::ranges::max_element(reach);
  for (;; --most) {
    for (size_t i = 0; i < reach.size(); ++i)
      decisions.prefetch[i] = std::min(reach[i], most);
    if (most == 0 || model.evaluate(decisions).peak + beside <= limit)
      break;
  }
  SearchOptions options;
  options.keeps = options.recomputes = options.offloads = false;
  return {applyDecisions(config, model, decisions, options),
          "each bucket is gathered as early as " + formatBytes(limit) +
              " allow, at most " + std::to_string(most) + " ahead"};
}

namespace {
/// A parameter and where forward reads it first.
struct UsedParameter {
  std::string name;
  unsigned position;
  double bytes;
};
} // namespace

/// In the order of their first use; of programs that train, the first counts.
static std::vector<UsedParameter> listByUse(ModuleOp module,
                                            const Config &config) {
  std::vector<UsedParameter> used;
  StateTable states(module);
  for (func::FuncOp func : getPrograms(module)) {
    if (isInference(func))
      continue;
    llvm::DenseMap<Operation *, unsigned> positions;
    for (auto [i, op] : llvm::enumerate(func.getBody().front()))
      positions[&op] = i;
    for (BlockArgument argument : func.getArguments()) {
      StateOp state = states.lookup(func, argument.getArgNumber());
      if (!state || !isParameter(state))
        continue;
      unsigned first = positions.size();
      for (Operation *user : argument.getUsers())
        first = std::min(first, positions.lookup(user));
      double bytes = state.getGlobalType().getElementTypeBitWidth() / 8.0;
      if (const std::string &type = config.precision.policy.paramDtype;
          !type.empty())
        bytes = type == "float64" ? 8 : type == "float32" ? 4 : 2;
      used.push_back({state.getAllNames().front().str(), first,
                      bytes * double(state.getGlobalType().getNumElements())});
    }
    break;
  }
  std::ranges::stable_sort(used, {}, &UsedParameter::position);
  return used;
}

PeerSchedule fsdp::applyInductor(ModuleOp module, const Config &config) {
  PeerSchedule result{config, ""};
  std::vector<NamedBucket> &buckets = result.config.buckets;
  double bytes = 0;
  for (const UsedParameter &each : listByUse(module, config)) {
    if (buckets.empty() || bytes + each.bytes > kInductorCap) {
      buckets.push_back({"use." + std::to_string(buckets.size()), {}});
      bytes = 0;
    }
    buckets.back().patterns.push_back(quotePattern(each.name));
    bytes += each.bytes;
  }
  result.what = "parameters in the order of their use are " +
                std::to_string(buckets.size()) + " buckets of at most 2000 MB";
  return result;
}

PeerSchedule fsdp::applyPeerRule(ModuleOp module, const Config &config,
                                 const Cluster &cluster) {
  switch (config.planner) {
  case Planner::DeepCompile:
    return applyDeepCompile(predict(module, config, cluster), config, cluster);
  case Planner::Inductor:
    return applyInductor(module, config);
  default:
    return applyFsdp2(config);
  }
}
