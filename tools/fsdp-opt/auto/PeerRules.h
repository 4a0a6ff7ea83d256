//===- PeerRules.h - Schedules by the rules of others -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `schedule: fsdp2`, `deepcompile` and `inductor`: what these would decide
// about gathers, on our plans and by our cost model, to compare with. Each rule
// gives a config that a person could have written.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TOOLS_FSDPOPT_AUTO_PEERRULES_H
#define FSDP_TOOLS_FSDPOPT_AUTO_PEERRULES_H

#include "simulate/Cluster.h"
#include "tools/fsdp-opt/config/Config.h"
#include "tools/fsdp-opt/predict/Predicted.h"

#include "mlir/IR/BuiltinOps.h"

#include <string>

namespace fsdp {

struct PeerSchedule {
  Config config;
  std::string what; ///< that was done, in words
};

/// FSDP2 gathers the next bucket while one is in use, in forward and in
/// backward (torch/distributed/fsdp, implicit prefetching).
PeerSchedule applyFsdp2(const Config &config);

/// DeepCompile starts each gather as early as memory allows: while what is
/// under way has at most 4e9 bytes, and at most 0.9 of the device, or the
/// budget, is held (deepspeed/compile/passes/prefetch.py). `base` is what the
/// config itself gives.
PeerSchedule applyDeepCompile(const Predicted &base, const Config &config,
                              const Cluster &cluster);

/// Inductor puts parameters into buckets in the order of their first use,
/// whatever module they are in, each of at most 2000 MB
/// (torch/_inductor/fx_passes/bucketing.py, the default cap).
PeerSchedule applyInductor(mlir::ModuleOp module, const Config &config);

/// By the rule that `config` names, which says nothing of what that decides.
/// Throws as the rules.
PeerSchedule applyPeerRule(mlir::ModuleOp module, const Config &config,
                           const Cluster &cluster);

} // namespace fsdp

#endif // FSDP_TOOLS_FSDPOPT_AUTO_PEERRULES_H
