//===- MergedBuckets.cpp - Small neighbours moved together ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/auto/MergedBuckets.h"

#include "simulate/CollectiveModel.h"
#include "tools/fsdp-opt/auto/Choices.h"

#include <algorithm>

using namespace fsdp;

/// Of the highest rate that any size reaches.
static constexpr double kSaturated = 0.9;

/// The ranks that most of what is gathered comes from.
static const plan::GroupT *findGroup(const plan::PlanT &plan) {
  for (const auto &program : plan.programs)
    for (const auto &instruction : program->instructions)
      if (const plan::AllGatherT *gather = instruction->body.AsAllGather())
        return plan.groups[gather->group].get();
  return nullptr;
}

/// Bytes from which on a gather saturates the link, beside kernels where it
/// shares their cores.
static double findSaturation(const plan::GroupT &group,
                             const Cluster &cluster) {
  CollectiveModel model(cluster);
  auto rate = [&](double bytes) {
    TransferCost cost =
        model.collective(CollectiveKind::allGather, bytes, group);
    double seconds = std::max(cost.seconds, cost.beside);
    return seconds > 0 ? bytes / seconds : 0;
  };
  constexpr double least = 0x1p10, most = 0x1p34;
  double highest = 0;
  for (double bytes = least; bytes <= most; bytes *= 2)
    highest = std::max(highest, rate(bytes));
  for (double bytes = least; bytes <= most; bytes *= 2)
    if (rate(bytes) >= kSaturated * highest)
      return bytes;
  return least;
}

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
  double cap = findSaturation(*group, cluster);
  const std::vector<BucketFacts> &all = model.buckets();
  Config merged = config;
  bool isAny = false;
  for (size_t i = 0; i < all.size();) {
    size_t end = i;
    double bytes = 0;
    while (end < all.size() && end - i < span && all[end].gathered > 0 &&
           double(all[end].gathered) < cap &&
           bytes + double(all[end].gathered) <= cap &&
           isWhole(all[end], all, model))
      bytes += double(all[end++].gathered);
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
