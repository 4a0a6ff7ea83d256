//===- MemoryChecks.cpp - What keys of memory say together ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/config/Checks.h"

using namespace fsdp;

static void checkCheckpointing(Reading &reading) {
  for (const CheckpointingConfig &told : reading.result.config.checkpointing)
    if (!told.save.empty() && told.policy == RecomputeChoice::Full)
      reading.refuse("fsdp_config.activation_checkpointing",
                     "'save' names operators whose results are kept, which "
                     "policy: full does not; write policy: selective");
}

static void checkOffload(Reading &reading) {
  const Config &config = reading.result.config;
  if (config.offloadParams && config.microBatches > 1 &&
      config.sync == Sync::AllReduceLast)
    reading.refuse("fsdp_config.gradient_sync",
                   "'gradient_sync' all_reduce_last keeps running sums on the "
                   "device until replicas add them up, and with " +
                       reading.quote("fsdp_config.offload_params") +
                       " they lie on the host; write each or last");
}

std::span<const Check> fsdp::getMemoryChecks() {
  static const Check all[] = {
      {{"fsdp_config.activation_checkpointing"}, checkCheckpointing},
      {{"fsdp_config.offload_params", "fsdp_config.offload_optimizer",
        "fsdp_config.activation_offloading", "fsdp_config.gradient_sync"},
       checkOffload},
  };
  return all;
}
