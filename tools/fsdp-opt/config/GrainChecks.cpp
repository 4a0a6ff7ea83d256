//===- GrainChecks.cpp - What does not go with grains ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/Grains.h"
#include "tools/fsdp-opt/config/Checks.h"

using namespace fsdp;

static const char *const kGrains = "fsdp_config.grains";

/// What sums in another order, or what nobody has shown to give the same bits.
static void refuseOthers(Reading &reading) {
  const Config &config = reading.result.config;
  auto refuse = [&](const char *path, const std::string &what) {
    reading.refuse(path,
                   what + "; leave it out, or fsdp_config.grains, which is for "
                          "the same bits on any number of ranks",
                   ErrorId::ConfigNotSupported);
  };
  if (config.target.device == Target::Device::Cuda)
    refuse("device", "'device: cuda' is not supported with 'grains': nothing "
                     "says in which order its kernels sum");
  if (config.tp > 1 || config.cp > 1)
    refuse("mesh", "'tp' and 'cp' are not supported with 'grains': several "
                   "ranks would have summands of one grain");
  if (config.gradientDivideFactor)
    refuse("fsdp_config.gradient_divide_factor",
           "'gradient_divide_factor' is not supported with 'grains', by whose "
           "number gradients are divided");
  if (config.divideInOptimizer.value_or(false))
    refuse("fsdp_config.gradient_division",
           "'gradient_division: optimizer' is not supported with 'grains', "
           "whose sum is divided once");
  if (!config.reduceIgnoredParams)
    refuse("fsdp_config.reduce_ignored_params",
           "'reduce_ignored_params: false' is not supported with 'grains': "
           "each rank would train parameters of its own");
  if (config.offloadParams || config.offloadOptimizer)
    refuse("fsdp_config", "'offload_params' and 'offload_optimizer' are not "
                          "supported with 'grains'");
  if (config.float8)
    refuse("float8", "'float8' is not supported with 'grains': that its scales "
                     "have the same bits on any number of ranks is not shown");
  if (config.gradNormType == 1)
    refuse("grad_norm_type",
           "'grad_norm_type: 1' is not supported with 'grains', found 1, "
           "expected 2 or inf, which have sums without rounding");
}

/// A step's micro-batches follow from the ranks.
static void refuseMicroBatches(Reading &reading) {
  const Config &config = reading.result.config;
  if (config.microBatches > 1)
    reading.refuse(
        "gradient_accumulation_steps",
        "'gradient_accumulation_steps: " + std::to_string(config.microBatches) +
            "' does not go with 'grains: " + std::to_string(config.grains) +
            "', which says of how many batches a step consists, on "
            "all ranks together; leave it out");
  if (reading.find("fsdp_config.gradient_sync") && config.sync != Sync::Last)
    reading.refuse("fsdp_config.gradient_sync",
                   "'gradient_sync' can only be last with 'grains': each rank "
                   "sums its own grains first; leave it out");
}

void fsdp::checkGrains(Reading &reading) {
  Config &config = reading.result.config;
  if (config.grains == 0)
    return;
  if (config.mode == Mode::Inference)
    return reading.noteWithoutEffect(kGrains, "mode: inference");
  refuseOthers(reading);
  refuseMicroBatches(reading);
  auto grains = static_cast<uint32_t>(config.grains);
  std::vector<GrainBlock> blocks =
      dealGrains(grains, static_cast<uint32_t>(config.dpReplicate),
                 static_cast<uint32_t>(config.dpShard));
  if (blocks.empty())
    return reading.refuse(
        kGrains, "'grains: " + std::to_string(grains) + "' are too few for " +
                     std::to_string(config.dpReplicate) + " x " +
                     std::to_string(config.dpShard) +
                     " ranks (dp_replicate x dp_shard), each of which needs "
                     "one; ranks that divide them evenly are " +
                     listEvenWorlds(grains) + ", and any smaller number works");
  config.microBatches = getMostGrains(blocks);
  config.sync = Sync::Last;
}
