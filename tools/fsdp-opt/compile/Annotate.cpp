//===- Annotate.cpp - The config as attributes of the module ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/compile/Annotate.h"

#include "ir/fsdp/Fsdp.h"
#include "passes/analysis/ModelFlops.h"
#include "passes/analysis/Programs.h"
#include "passes/emit/PlanEnums.h"
#include "passes/emit/RunSettings.h"
#include "support/Error.h"
#include "support/Pattern.h"
#include "tools/fsdp-opt/compile/Mode.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>

using namespace fsdp;
using namespace mlir;

namespace {
//===----------------------------------------------------------------------===//
// Choices
//===----------------------------------------------------------------------===//

// The config is read without MLIR, so that its choices are types of their own.
// Each table has all choices of the dialect.

constexpr std::pair<WrapPolicy, BucketPolicy> kPolicies[] = {
    {WrapPolicy::Blocks, BucketPolicy::Blocks},
    {WrapPolicy::Classes, BucketPolicy::Classes},
    {WrapPolicy::Size, BucketPolicy::Size},
    {WrapPolicy::None, BucketPolicy::None},
};
static_assert(std::size(kPolicies) == getMaxEnumValForBucketPolicy() + 1);

constexpr std::pair<Reshard, ReshardMode> kReshards[] = {
    {Reshard::All, ReshardMode::All},
    {Reshard::AllButRoot, ReshardMode::AllButRoot},
    {Reshard::None, ReshardMode::None},
};
static_assert(std::size(kReshards) == getMaxEnumValForReshardMode() + 1);

constexpr std::pair<LayoutChoice, BucketLayout> kLayouts[] = {
    {LayoutChoice::Auto, BucketLayout::Auto},
    {LayoutChoice::Rows, BucketLayout::Rows},
    {LayoutChoice::Flat, BucketLayout::Flat},
    {LayoutChoice::Fsdp2, BucketLayout::Fsdp2},
};
static_assert(std::size(kLayouts) == getMaxEnumValForBucketLayout() + 1);

constexpr std::pair<Sync, GradientSync> kSyncs[] = {
    {Sync::Each, GradientSync::Each},
    {Sync::Last, GradientSync::Last},
    {Sync::AllReduceLast, GradientSync::AllReduceLast},
};
static_assert(std::size(kSyncs) == getMaxEnumValForGradientSync() + 1);

constexpr std::pair<RecomputeChoice, RecomputePolicy> kRecomputes[] = {
    {RecomputeChoice::Full, RecomputePolicy::Full},
    {RecomputeChoice::Selective, RecomputePolicy::Selective},
};
static_assert(std::size(kRecomputes) == getMaxEnumValForRecomputePolicy() + 1);

constexpr std::pair<ParallelChoice, ParallelStyle> kStyles[] = {
    {ParallelChoice::Colwise, ParallelStyle::Colwise},
    {ParallelChoice::Rowwise, ParallelStyle::Rowwise},
    {ParallelChoice::Replicate, ParallelStyle::Replicate},
};
static_assert(std::size(kStyles) == getMaxEnumValForParallelStyle() + 1);

constexpr std::pair<Float8Choice, Float8Recipe> kFloat8Recipes[] = {
    {Float8Choice::Tensorwise, Float8Recipe::Tensorwise},
    {Float8Choice::Rowwise, Float8Recipe::Rowwise},
    {Float8Choice::Mxfp8, Float8Recipe::Mxfp8},
};
static_assert(std::size(kFloat8Recipes) == getMaxEnumValForFloat8Recipe() + 1);

template <typename From, typename To, size_t size>
To choose(const std::pair<From, To> (&table)[size], From choice) {
  const auto *found = llvm::find_if(
      table, [&](const auto &each) { return each.first == choice; });
  assert(found != std::end(table) && "all choices are in the table");
  return found->second;
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

FloatAttr getNumber(MLIRContext *context, std::optional<double> value) {
  return value ? getReal(context, *value) : FloatAttr();
}

ArrayAttr getArray(MLIRContext *context, ArrayRef<Attribute> list) {
  return list.empty() ? ArrayAttr() : ArrayAttr::get(context, list);
}

//===----------------------------------------------------------------------===//
// The compile
//===----------------------------------------------------------------------===//

Attribute getShards(MLIRContext *context, const Config &config) {
  SmallVector<Attribute> dims;
  for (const ShardDim &rule : config.shardDims)
    dims.push_back(DimRuleAttr::get(
        context, getTextsAttr(context, {rule.pattern}), rule.dim));
  return ShardsAttr::get(context, config.getWorldSize(), config.dpReplicate,
                         getTextsAttr(context, config.ignoredParams),
                         !config.reduceIgnoredParams, getArray(context, dims));
}

/// Null if each rank computes its own batch.
Attribute getParallel(MLIRContext *context, const Config &config) {
  if (config.tp == 1 && config.cp == 1)
    return {};
  SmallVector<Attribute> plan;
  if (config.tpPlan)
    for (const ParallelRule &rule : *config.tpPlan)
      plan.push_back(
          ParallelRuleAttr::get(context, getTextsAttr(context, {rule.pattern}),
                                choose(kStyles, rule.style)));
  return ParallelAttr::get(
      context, config.tp, config.cp, getArray(context, plan), !config.tpPlan,
      config.sequenceParallel, config.rotate == RotateChoice::Ring);
}

/// Null if nothing is said.
StringAttr getWire(MLIRContext *context, const std::string &name) {
  return name.empty() ? StringAttr() : StringAttr::get(context, name);
}

Attribute getRule(MLIRContext *context, const ModuleOverride &override) {
  std::optional<BucketLayout> layout;
  if (override.layout)
    layout = choose(kLayouts, *override.layout);
  return RuleAttr::get(context, getTextsAttr(context, override.modules),
                       override.reshard, layout, override.prefetch,
                       getWire(context, override.reduceWireDtype));
}

Attribute getBuckets(MLIRContext *context, const Config &config) {
  SmallVector<Attribute> named, rules;
  for (const NamedBucket &bucket : config.buckets)
    named.push_back(BucketAttr::get(context,
                                    StringAttr::get(context, bucket.name),
                                    getTextsAttr(context, bucket.patterns)));
  for (const ModuleOverride &override : config.overrides)
    if (override.reshard || override.layout || override.prefetch ||
        !override.reduceWireDtype.empty())
      rules.push_back(getRule(context, override));
  return BucketsAttr::get(
      context, choose(kPolicies, config.wrapPolicy),
      getTextsAttr(context, config.wrapClasses), config.minParams,
      getArray(context, named), choose(kReshards, config.reshard),
      config.reshard == Reshard::All ? config.reshardRanks : 0,
      choose(kLayouts, config.layout), getArray(context, rules));
}

/// NCCL sums in the network's switches, but divides nowhere else than on GPUs.
/// The layout that does as FSDP2 averages as it does.
bool dividesInOptimizer(const Config &config) {
  auto isFsdp2 = [](const ModuleOverride &override) {
    return override.layout == LayoutChoice::Fsdp2;
  };
  return config.divideInOptimizer.value_or(
      config.target.device == Target::Device::Cuda &&
      !config.forceSumReduction && config.layout != LayoutChoice::Fsdp2 &&
      llvm::none_of(config.overrides, isFsdp2));
}

Attribute getStep(MLIRContext *context, const Config &config, bool trains) {
  return StepAttr::get(
      context, config.microBatches, choose(kSyncs, config.sync),
      config.keepGathered, getNumber(context, config.gradientDivideFactor),
      config.forceSumReduction, dividesInOptimizer(config), config.prefetch,
      config.lossChunks, config.reductionsInFlight,
      getWire(context, config.reduceWireDtype), trains ? config.grains : 0,
      config.kernels);
}

/// Null if no layer does.
Attribute getFloat8(MLIRContext *context,
                    const std::optional<Float8Config> &told) {
  if (!told)
    return {};
  return Float8Attr::get(context, getTextsAttr(context, told->modules),
                         choose(kFloat8Recipes, told->recipe), told->allGather,
                         told->padInnerDim);
}

/// Null if nothing is.
Attribute getQuantize(MLIRContext *context,
                      const std::optional<QuantizeConfig> &told) {
  if (!told)
    return {};
  auto kind = told->kind == QuantizeChoice::Int8  ? QuantizedKind::Int8
              : told->kind == QuantizeChoice::Fp4 ? QuantizedKind::Fp4
                                                  : QuantizedKind::Nf4;
  return QuantizeAttr::get(context, getTextsAttr(context, told->modules), kind,
                           getTextsAttr(context, told->skip), told->blockSize,
                           told->doubleQuant);
}

/// Null if nothing is asked for.
Attribute getRecompute(MLIRContext *context,
                       ArrayRef<CheckpointingConfig> all) {
  if (all.empty())
    return {};
  auto get = [&](const CheckpointingConfig &each, ArrayRef<Attribute> also) {
    return RecomputeAttr::get(context, choose(kRecomputes, each.policy),
                              each.every, getTextsAttr(context, each.modules),
                              getTextsAttr(context, each.save),
                              getArray(context, also));
  };
  SmallVector<Attribute> others;
  for (const CheckpointingConfig &each : all.drop_front())
    others.push_back(get(each, {}));
  return get(all.front(), others);
}

/// Null if nothing leaves the device.
Attribute getOffload(MLIRContext *context, const Config &config) {
  if (!config.offloadParams && !config.offloadOptimizer &&
      config.offloadActivations.empty())
    return {};
  return OffloadAttr::get(
      context, config.offloadParams, config.offloadOptimizer,
      getTextsAttr(context, config.offloadActivations), config.pinMemory);
}

/// Those of `given` that the optimizer has; null: none.
DictionaryAttr getGiven(MLIRContext *context, OptimizerKind kind,
                        const std::map<OptimizerNumber, double> &given) {
  SmallVector<NamedAttribute> all;
  for (auto [number, value] : given)
    if (getFacts(kind).has(number))
      all.push_back({StringAttr::get(context, getFacts(number).name),
                     getReal(context, value)});
  return all.empty() ? DictionaryAttr() : DictionaryAttr::get(context, all);
}

/// Of patterns that not every model has something for, those that this one
/// has, and those of its modules of class LayerNorm.
std::vector<std::string> listSpared(ModuleOp module,
                                    std::vector<std::string> patterns) {
  for (auto info : module.getOps<ModuleInfoOp>())
    if (info.getClassName() == "LayerNorm" && !info.getPath().empty())
      patterns.push_back(info.getPath().str() + ".*");
  std::erase_if(patterns, [&](const std::string &pattern) {
    return llvm::none_of(module.getOps<StateOp>(), [&](StateOp state) {
      return state.getRole() == Role::Parameter &&
             llvm::any_of(state.getAllNames(), [&](StringRef name) {
               return matchesPattern(pattern, name.str());
             });
    });
  });
  return patterns;
}

Attribute getGroup(ModuleOp module, OptimizerKind kind,
                   const OptimizerGroup &group) {
  MLIRContext *context = module.getContext();
  std::vector<std::string> patterns =
      group.sparesNorms ? listSpared(module, group.patterns) : group.patterns;
  if (patterns.empty())
    return {};
  return ParamGroupAttr::get(context, getTextsAttr(context, patterns),
                             getNumber(context, group.lr),
                             getGiven(context, kind, group.numbers));
}

StateDType getStateDType(std::optional<StateChoice> choice) {
  if (!choice)
    return StateDType::Parameter;
  switch (*choice) {
  case StateChoice::BFloat16:
    return StateDType::BFloat16;
  case StateChoice::Int8:
    return StateDType::Int8;
  case StateChoice::Float8:
    return StateDType::Float8;
  case StateChoice::Float32:
    return StateDType::Float32;
  }
  llvm_unreachable("all choices have a name in the IR");
}

Attribute getOptimizer(ModuleOp module, const Config &config) {
  MLIRContext *context = module.getContext();
  const OptimizerConfig &optimizer = config.optimizer;
  auto number = [&](double value) { return getReal(context, value); };
  FloatAttr clip;
  if (config.maxGradNorm && std::isfinite(*config.maxGradNorm))
    clip = number(*config.maxGradNorm);
  SmallVector<Attribute> groups;
  if (config.adapter && config.adapter->ratio) {
    // LoRA+; groups that the config names come behind it, and so count.
    OptimizerGroup group;
    group.patterns = {"*.lora_*B*"};
    group.lr = optimizer.lr * *config.adapter->ratio;
    groups.push_back(getGroup(module, optimizer.kind, group));
  }
  for (const OptimizerGroup &group : optimizer.groups)
    if (Attribute each = getGroup(module, optimizer.kind, group))
      groups.push_back(each);
  return OptimizerAttr::get(
      context, optimizer.kind, number(optimizer.lr),
      getGiven(context, optimizer.kind, optimizer.numbers), clip,
      number(config.gradNormType), getArray(context, groups),
      config.optimizerInBackward, getStateDType(optimizer.stateDType),
      optimizer.stochasticRounding);
}

Attribute getLossScale(MLIRContext *context, const LossScaleConfig &scale) {
  return LossScaleAttr::get(context, scale.growthInterval,
                            getReal(context, scale.growthFactor),
                            getReal(context, scale.backoffFactor));
}

Attribute getEma(MLIRContext *context, const EmaConfig &ema) {
  return EmaAttr::get(context, getReal(context, ema.decay), ema.updateAfterStep,
                      ema.every, fromPlan<EmaWarmup>(ema.warmup),
                      getReal(context, ema.gamma), getReal(context, ema.power),
                      ema.keepsType);
}
} // namespace

void fsdp::annotate(ModuleOp module, const Config &config) {
  MLIRContext *context = module.getContext();
  bool trains = !isForInference(module);
  auto set = [&](StringRef name, Attribute value) {
    if (value)
      module->setAttr(name, value);
    else
      module->removeAttr(name);
  };
  for (func::FuncOp program : getPrograms(module))
    if (double flops = countModelFlops(program); flops > 0)
      program->setAttr(kModelFlopsAttr, getReal(context, flops));
  set(ShardsAttr::name, getShards(context, config));
  set(ParallelAttr::name, getParallel(context, config));
  set(BucketsAttr::name, getBuckets(context, config));
  set(StepAttr::name, getStep(context, config, trains));
  set(Float8Attr::name, getFloat8(context, config.float8));
  set(QuantizeAttr::name, getQuantize(context, config.quantize));
  set(RecomputeAttr::name,
      trains ? getRecompute(context, config.checkpointing) : Attribute());
  if (!config.followsCheckpoints)
    module->removeAttr(kCheckpointsAttr);
  set(OffloadAttr::name, getOffload(context, config));
  set(OptimizerAttr::name, getOptimizer(module, config));
  set(LossScaleAttr::name, config.lossScale
                               ? getLossScale(context, *config.lossScale)
                               : Attribute());
  set(EmaAttr::name,
      trains && config.ema ? getEma(context, *config.ema) : Attribute());
  set(ReportedNormsAttr::name,
      trains && config.norms.isAny()
          ? ReportedNormsAttr::get(context, config.norms.gradients,
                                   config.norms.weights, config.norms.updates,
                                   config.norms.byModule)
          : Attribute());
  set(kSeedAttr, config.seed ? Builder(context).getI64IntegerAttr(config.seed)
                             : Attribute());
  set(ScheduleAttr::name, trains && config.schedule
                              ? toSetting(context, *config.schedule)
                              : Attribute());
  set(DataAttr::name,
      config.data ? toSetting(context, config.data->data) : Attribute());
  set(ValidationAttr::name, trains && config.validation
                                ? toSetting(context, *config.validation)
                                : Attribute());
  set(ArithmeticAttr::name,
      config.arithmetic ? toSetting(context, *config.arithmetic) : Attribute());
  OnNonFinite policy = fromPlan<OnNonFinite>(config.onNonFinite);
  set(OnNonFiniteAttr::name, trains && policy != OnNonFinite::Stop
                                 ? OnNonFiniteAttr::get(context, policy)
                                 : Attribute());
}
