//===- MergedBuckets.h - Small neighbours moved together --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TOOLS_FSDPOPT_AUTO_MERGEDBUCKETS_H
#define FSDP_TOOLS_FSDPOPT_AUTO_MERGEDBUCKETS_H

#include "decide/StepModel.h"
#include "tools/fsdp-opt/config/Config.h"

#include <optional>

namespace fsdp {

/// `config` with up to `span` neighbouring buckets of modules made one, called
/// "layers.0+3", where the gather of all takes less than those of each do, by a
/// tenth at least. None if that merges nothing. `model` is that of `plan`.
std::optional<Config> mergeBuckets(const Config &config, const StepModel &model,
                                   const plan::PlanT &plan,
                                   const Cluster &cluster, size_t span);

} // namespace fsdp

#endif // FSDP_TOOLS_FSDPOPT_AUTO_MERGEDBUCKETS_H
