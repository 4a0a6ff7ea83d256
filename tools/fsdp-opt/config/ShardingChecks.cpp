//===- ShardingChecks.cpp - What keys of sharding say together ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/Grains.h"
#include "tools/fsdp-opt/config/Checks.h"
#include "tools/fsdp-opt/config/Foreign.h"
#include "tools/fsdp-opt/config/Names.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

using namespace fsdp;

static void checkPolicy(Reading &reading) {
  applyAutoWrap(reading);
  const Config &config = reading.result.config;
  bool classes = config.wrapPolicy == WrapPolicy::Classes;
  if (classes && config.wrapClasses.empty())
    reading.refuse(
        "fsdp_config",
        "TRANSFORMER_BASED_WRAP needs transformer_layer_cls_to_wrap: the class "
        "of the repeated layer (--explain lists the classes)",
        ErrorId::ConfigMissingKey);
  auto tie = [&](const char *path, WrapPolicy policy) {
    if (reading.find(path) && config.wrapPolicy != policy)
      reading.refuse(path, reading.quote(path) + " needs auto_wrap_policy: " +
                               std::string(getName(policy)));
  };
  tie("fsdp_config.transformer_layer_cls_to_wrap", WrapPolicy::Classes);
  tie("fsdp_config.min_num_params", WrapPolicy::Size);
}

static std::string atOverride(size_t i) {
  return "fsdp_config.overrides[" + std::to_string(i) + "]";
}

/// Overrides know where they stand, and those of dtypes are the capture's.
static void completeOverrides(Reading &reading) {
  Config &config = reading.result.config;
  for (size_t i = 0; i < config.overrides.size(); ++i) {
    ModuleOverride &override = config.overrides[i];
    override.place =
        reading.read.describePlace(reading.find(atOverride(i))->value);
    if (override.modules.empty())
      reading.refuse(atOverride(i),
                     "an override needs modules: patterns of the paths of the "
                     "modules that it is for",
                     ErrorId::ConfigMissingKey);
    if (override.precision)
      config.precision.overrides.push_back(
          {override.modules, *override.precision});
  }
}

/// dp_shard, if it is given.
static std::optional<int64_t> getShard(const Reading &reading) {
  if (reading.find("mesh.dp_shard"))
    return reading.result.config.dpShard;
  return std::nullopt;
}

static void checkRanks(Reading &reading) {
  std::optional<int64_t> shard = getShard(reading);
  const Config &config = reading.result.config;
  if (reading.mayLackRanks && !reading.world && (!shard || *shard == -1))
    reading.world = config.dpReplicate * config.tp * config.cp *
                    std::max<int64_t>(config.reshardRanks, 1);
  if (!reading.world && !shard)
    reading.refuse("mesh",
                   "the number of ranks is missing; add mesh: {dp_shard: N} to "
                   "the config or --world=N to the command",
                   ErrorId::ConfigMissingKey);
  if (!reading.world && *shard == -1)
    reading.refuse("mesh",
                   "'dp_shard: -1' takes all ranks of --world, which is "
                   "missing; add --world=N to the command",
                   ErrorId::ConfigMissingKey);
}

/// The mesh from what the file and the command say of it.
static void resolveMesh(Reading &reading) {
  Config &config = reading.result.config;
  const std::optional<int64_t> &world = reading.world;
  std::optional<int64_t> shard = getShard(reading);
  applyStrategy(reading, shard);
  // Of all axes but dp_shard. None is above kMostRanks: this does not overflow.
  int64_t others = config.dpReplicate * config.tp * config.cp;
  std::string asked = std::to_string(config.dpReplicate) + " replicas";
  if (config.tp > 1)
    asked = (config.dpReplicate > 1 ? asked + " of " : "") +
            std::to_string(config.tp) + " tensor parallel ranks";
  if (config.cp > 1)
    asked = (config.dpReplicate * config.tp > 1 ? asked + " and " : "") +
            std::to_string(config.cp) + " context parallel ranks";
  if (world && *world % others != 0)
    reading.refuse("mesh",
                   "the mesh has " + asked + ", which do not divide --world=" +
                       std::to_string(*world),
                   ErrorId::MeshMismatch);
  if (world && shard && *shard != -1 && *shard * others != *world)
    reading.refuse("mesh",
                   "the mesh has " + std::to_string(*shard * others) +
                       " ranks and --world=" + std::to_string(*world) +
                       "; write dp_shard: -1, or leave --world out",
                   ErrorId::MeshMismatch);
  config.dpShard = world ? *world / others : *shard;
  if (others > kMostRanks || config.dpShard * others > kMostRanks)
    reading.refuse(
        "mesh", "the mesh has " + std::to_string(config.dpShard * others) +
                    " ranks; expected at most " + std::to_string(kMostRanks));
}

/// What is asked of ranks that are not there.
static void checkParallel(Reading &reading) {
  const Config &config = reading.result.config;
  if (config.cp == 1)
    reading.noteWithoutEffect(
        "context_parallel_rotate_method",
        "all of a sequence on one rank; mesh: {cp: N} says over how many it is "
        "cut");
  if (config.tp > 1)
    return;
  const char *why = "one rank a step; mesh: {tp: N} says how many there are";
  reading.noteWithoutEffect("tp_plan", why);
  if (config.sequenceParallel)
    reading.noteWithoutEffect("sequence_parallel", why);
}

/// Ranks that hold parameters together between forward and backward.
static void checkReshard(Reading &reading) {
  const Config &config = reading.result.config;
  int64_t shards = config.dpShard * config.cp;
  auto check = [&](int64_t ranks, const std::string &path) {
    if (ranks > 1 && shards % ranks != 0)
      reading.refuse(path, reading.quote(path) +
                               ": expected a number of ranks that divides "
                               "the " +
                               std::to_string(shards) + " of dp_shard" +
                               (config.cp > 1 ? " times cp" : "") + ", found " +
                               std::to_string(ranks));
  };
  check(config.reshardRanks, "fsdp_config.reshard_after_forward");
  for (size_t i = 0; i < config.overrides.size(); ++i)
    check(config.overrides[i].reshard.value_or(0),
          atOverride(i) + ".reshard_after_forward");
}

/// In what type gradients travel to the rank that sums them.
static void checkWire(Reading &reading) {
  const Config &config = reading.result.config;
  if (config.dpShard * config.cp > 1)
    return;
  const char *why =
      "no gradient is scattered: one rank has all of each parameter";
  reading.noteWithoutEffect("fsdp_config.reduce_wire_dtype", why);
  for (size_t i = 0; i < config.overrides.size(); ++i)
    reading.noteWithoutEffect(atOverride(i) + ".reduce_wire_dtype", why);
}

static void checkCheckpointing(Reading &reading) {
  for (const CheckpointingConfig &told : reading.result.config.checkpointing)
    if (!told.save.empty() && told.policy == RecomputeChoice::Full)
      reading.refuse("fsdp_config.activation_checkpointing",
                     "'save' names operators whose results are kept, which "
                     "policy: full does not; write policy: selective");
}

/// What was allowed that a GPU alone can do.
static void checkArithmetic(Reading &reading) {
  std::optional<plan::ArithmeticT> &allowed = reading.result.config.arithmetic;
  if (!allowed)
    return;
  bool isAny = false;
  for (auto [key, is] :
       {std::pair("tf32", &plan::ArithmeticT::tf32),
        std::pair("reduced_precision_reduction",
                  &plan::ArithmeticT::reduced_precision_reduction),
        std::pair("fp16_accumulation", &plan::ArithmeticT::fp16_accumulation),
        std::pair("deterministic", &plan::ArithmeticT::deterministic)})
    if ((*allowed).*is) {
      isAny = true;
      if (reading.result.config.target.device == Target::Device::Cpu)
        reading.noteWithoutEffect(key, "device: cpu");
    }
  if (!isAny || reading.result.config.target.device == Target::Device::Cpu)
    allowed.reset();
  reading.result.config.target.isDeterministic =
      allowed && allowed->deterministic;
}

//===----------------------------------------------------------------------===//
// Micro-batches
//===----------------------------------------------------------------------===//

/// Divides grains among the ranks.
static void dealConfiguredGrains(Reading &reading) {
  Config &config = reading.result.config;
  const char *key = "fsdp_config.grains";
  if (config.grains == 0)
    return;
  if (config.mode == Mode::Inference)
    return reading.noteWithoutEffect(key, "mode: inference");
  auto grains = static_cast<uint32_t>(config.grains);
  std::vector<GrainBlock> blocks =
      dealGrains(grains, static_cast<uint32_t>(config.dpReplicate),
                 static_cast<uint32_t>(config.dpShard));
  if (blocks.empty())
    reading.refuse(
        key, "'grains: " + std::to_string(grains) + "' are too few for " +
                 std::to_string(config.dpReplicate) + " x " +
                 std::to_string(config.dpShard) +
                 " ranks (dp_replicate x dp_shard), each of which needs one; "
                 "ranks that divide them evenly are " +
                 listEvenWorlds(grains) + ", and any smaller number works");
  config.microBatches = getMostGrains(blocks);
  config.sync = Sync::Last;
}

static void noteSingleBatch(Reading &reading) {
  const Config &config = reading.result.config;
  if (config.microBatches > 1)
    return;
  const char *why = "one micro-batch a step; gradient_accumulation_steps says "
                    "how many there are";
  if (config.keepGathered)
    reading.noteWithoutEffect("fsdp_config.reshard_after_backward", why);
  if (config.sync != Sync::Each)
    reading.noteWithoutEffect("fsdp_config.gradient_sync", why);
}

std::span<const Check> fsdp::getMicroBatchChecks() {
  static const Check all[] = {
      {{"fsdp_config.grains", "gradient_accumulation_steps",
        "fsdp_config.gradient_sync", "mesh", "--world", "mode"},
       dealConfiguredGrains},
      {{"fsdp_config.reshard_after_backward",
        "fsdp_config.reshard_after_forward", "fsdp_config.overrides",
        "fsdp_config.gradient_sync", "gradient_accumulation_steps"},
       noteSingleBatch},
  };
  return all;
}

std::span<const Check> fsdp::getShardingChecks() {
  static const Check all[] = {
      {{"fsdp_config.auto_wrap_policy",
        "fsdp_config.transformer_layer_cls_to_wrap",
        "fsdp_config.min_num_params"},
       checkPolicy},
      {{"fsdp_config.overrides"}, completeOverrides},
      {{"mesh", "--world"}, checkRanks},
      {{"tp_plan", "sequence_parallel", "mesh"}, checkParallel},
      {{"mesh", "--world", "fsdp_config.reshard_after_forward"}, resolveMesh},
      {{"fsdp_config.reshard_after_forward", "fsdp_config.overrides", "mesh",
        "--world"},
       checkReshard},
      {{"fsdp_config.reduce_wire_dtype", "fsdp_config.overrides", "mesh",
        "--world"},
       checkWire},
      {{"fsdp_config.activation_checkpointing"}, checkCheckpointing},
      {{"tf32", "reduced_precision_reduction", "fp16_accumulation",
        "deterministic", "device"},
       checkArithmetic},
  };
  return all;
}
