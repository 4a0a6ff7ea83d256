//===- ShardingChecks.cpp - What keys of sharding say together ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/config/Checks.h"
#include "tools/fsdp-opt/config/Foreign.h"
#include "tools/fsdp-opt/config/Names.h"

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
  if (config.cp > 1 && config.sequenceParallel)
    reading.refuse("sequence_parallel",
                   "sequence_parallel: expected false with mesh: {cp: " +
                       std::to_string(config.cp) +
                       "}, which cuts the sequence already",
                   ErrorId::ConfigNotSupported);
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

/// What depends on the model's shapes or buckets is the pass's to say.
static void checkLayout(Reading &reading) {
  const Config &config = reading.result.config;
  bool holdsRows = config.layout == LayoutChoice::Rows ||
                   config.layout == LayoutChoice::Auto;
  for (const ModuleOverride &override : config.overrides)
    holdsRows |= override.layout.has_value();
  const Given *rules = reading.find("fsdp_config.shard_dims");
  if (holdsRows || !rules)
    return;
  for (const auto &rule : rules->value)
    if (YamlReader::isInt(rule.second) &&
        reading.read.readInt(rule.second, "shard_dims") != 0)
      reading.read.fail(
          ErrorId::ConfigBadValue, rule.first,
          "'shard_dims' of '" + rule.first.Scalar() +
              "' is no dim 0, which 'bucket_layout: " +
              std::string(getName(config.layout)) +
              "' needs; write bucket_layout: auto or rows, or rows for its "
              "bucket in overrides");
}

static void checkMicroBatches(Reading &reading) {
  const Config &config = reading.result.config;
  const char *kept = "fsdp_config.reshard_after_backward";
  // With one rank as well: the config then means the same on more.
  if (config.keepGathered && config.reshard != Reshard::None)
    reading.refuse(kept, "'reshard_after_backward: false' keeps parameters "
                         "gathered from micro-batch to micro-batch, which "
                         "needs reshard_after_forward: false");
  for (size_t i = 0; i < config.overrides.size(); ++i) {
    int64_t reshard = config.overrides[i].reshard.value_or(1);
    if (config.keepGathered && reshard != 1)
      reading.refuse(atOverride(i),
                     "'reshard_after_forward: " +
                         (reshard == 0 ? "true" : std::to_string(reshard)) +
                         "' drops parameters after forward, and "
                         "'reshard_after_backward: false' keeps all of them; "
                         "leave one of them out");
  }
  if (config.microBatches > 1)
    return;
  const char *why = "one micro-batch a step; gradient_accumulation_steps says "
                    "how many there are";
  if (config.keepGathered)
    reading.noteWithoutEffect(kept, why);
  if (config.sync != Sync::Each)
    reading.noteWithoutEffect("fsdp_config.gradient_sync", why);
}

static void checkDivision(Reading &reading) {
  const Config &config = reading.result.config;
  if (config.divideInOptimizer.value_or(false) && config.forceSumReduction)
    reading.refuse("fsdp_config.gradient_division",
                   "'gradient_division: optimizer' and 'force_sum_reduction: "
                   "true' both sum gradients, but divide them at different "
                   "places; leave one of them out");
}

/// In what type gradients travel to the rank that sums them.
static void checkWire(Reading &reading) {
  const Config &config = reading.result.config;
  std::vector<std::string> paths;
  if (!config.reduceWireDtype.empty())
    paths.push_back("fsdp_config.reduce_wire_dtype");
  for (size_t i = 0; i < config.overrides.size(); ++i)
    if (!config.overrides[i].reduceWireDtype.empty())
      paths.push_back(atOverride(i) + ".reduce_wire_dtype");
  for (const std::string &path : paths) {
    if (config.target.device == Target::Device::Cuda)
      reading.refuse(path,
                     "'reduce_wire_dtype' is not supported with device: cuda, "
                     "whose collectives sum in the type that travels; write "
                     "mixed_precision: {reduce_dtype: bfloat16} for sums in it",
                     ErrorId::ConfigNotSupported);
    if (config.grains)
      reading.refuse(path,
                     "'reduce_wire_dtype' is not supported with 'grains': one "
                     "rank alone sends nothing, and rounds nothing; leave it "
                     "out, or fsdp_config.grains, which is for the same bits "
                     "on any number of ranks",
                     ErrorId::ConfigNotSupported);
    if (config.dpShard * config.cp == 1)
      reading.noteWithoutEffect(path, "no gradient is scattered: one rank has "
                                      "all of each parameter");
  }
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
      {{"fsdp_config.bucket_layout", "fsdp_config.shard_dims",
        "fsdp_config.overrides"},
       checkLayout},
      {{"fsdp_config.gradient_division", "fsdp_config.force_sum_reduction"},
       checkDivision},
      {{"fsdp_config.reduce_wire_dtype", "fsdp_config.overrides",
        "fsdp_config.grains", "mesh", "--world", "device"},
       checkWire},
      {{"tf32", "reduced_precision_reduction", "fp16_accumulation",
        "deterministic", "device"},
       checkArithmetic},
      // In front of what asks for the number of micro-batches.
      {{"fsdp_config.grains", "gradient_accumulation_steps",
        "fsdp_config.gradient_sync", "mesh", "--world", "mode"},
       checkGrains},
      {{"fsdp_config.reshard_after_backward",
        "fsdp_config.reshard_after_forward", "fsdp_config.overrides",
        "fsdp_config.gradient_sync", "gradient_accumulation_steps"},
       checkMicroBatches},
  };
  return all;
}
