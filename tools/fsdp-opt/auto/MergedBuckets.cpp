//===- MergedBuckets.cpp - Small neighbours moved together ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/auto/MergedBuckets.h"

#include "plan/Instructions.h"
#include "simulate/CollectiveModel.h"
#include "simulate/Simulator.h"
#include "tools/fsdp-opt/auto/Choices.h"

#include <algorithm>
#include <limits>

using namespace fsdp;

/// A gather of all takes at least so much less than those of each, else merging
/// them is not worth a try.
static constexpr double kLess = 0.1;

/// The ranks that most of what is gathered comes from.
static const plan::GroupT *findGroup(const plan::PlanT &plan) {
  for (const auto &program : plan.programs)
    for (const auto &instruction : program->instructions)
      if (const plan::TransferT *gather = gatherOf(*instruction))
        return plan.groups[gather->group].get();
  return nullptr;
}

namespace {

/// What gathers of a group take: beside kernels where it shares their cores,
/// with the copies of the thread that computes and the wait for ranks that come
/// last.
class GatherSeconds {
public:
  GatherSeconds(const plan::GroupT &group, const plan::PlanT &plan,
                const Cluster &cluster)
      : group(group), model(cluster),
        apart(getEngineOptions(plan, cluster)
                  .skew.within(std::numeric_limits<double>::max())) {}

  double of(double bytes) const {
    TransferCost cost =
        model.collective(CollectiveKind::all_gather, bytes, group);
    return cost.start + std::max(cost.seconds, cost.beside) + cost.finish +
           apart;
  }

private:
  const plan::GroupT &group;
  CollectiveModel model;
  double apart;
};

} // namespace

/// Of a module, all of whose parameters are in it.
static bool isWhole(const BucketFacts &bucket,
                    const std::vector<BucketFacts> &all,
                    const StepModel &model) {
  auto isBlock = [&](const BlockFacts &block) {
    return block.name == bucket.name && block.forward > 0;
  };
  return std::ranges::any_of(model.blocks(), isBlock) &&
         std::ranges::none_of(all, [&](const BucketFacts &other) {
           return other.name.starts_with(bucket.name + ".");
         });
}

std::optional<Config> fsdp::mergeBuckets(const Config &config,
                                         const StepModel &model,
                                         const plan::PlanT &plan,
                                         const Cluster &cluster, size_t span) {
  const plan::GroupT *group = findGroup(plan);
  if (!group || group->size < 2)
    return std::nullopt;
  GatherSeconds seconds(*group, plan, cluster);
  const std::vector<BucketFacts> &all = model.buckets();
  Config merged = config;
  bool isAny = false;
  for (size_t i = 0; i < all.size();) {
    size_t end = i;
    double bytes = 0, apart = 0;
    while (end < all.size() && end - i < span && all[end].gathered > 0 &&
           isWhole(all[end], all, model)) {
      auto more = double(all[end].gathered);
      double each = apart + seconds.of(more);
      if (end > i && seconds.of(bytes + more) > (1 - kLess) * each)
        break;
      bytes += more;
      apart = each;
      ++end;
    }
    if (end - i < 2) {
      ++i;
      continue;
    }
    NamedBucket &bucket = merged.buckets.emplace_back();
    bucket.name = all[i].name + "+" + std::to_string(end - i - 1);
    for (; i < end; ++i)
      bucket.patterns.push_back(quotePattern(all[i].name));
    isAny = true;
  }
  if (!isAny)
    return std::nullopt;
  return merged;
}
