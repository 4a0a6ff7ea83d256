//===- VerifyFeatures.cpp - That what is asked for goes together ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/Passes.h"
#include "passes/analysis/Programs.h"
#include "passes/analysis/Targets.h"
#include "passes/verify/Features.h"

using namespace mlir;
using namespace fsdp;

namespace fsdp {
#define GEN_PASS_DEF_VERIFYFEATURES
#include "passes/Passes.h.inc"
} // namespace fsdp

static bool hasTraining(ModuleOp module) {
  SmallVector<func::FuncOp> programs = getPrograms(module);
  return programs.empty() || !llvm::all_of(programs, isInference);
}

ModuleFeatures::ModuleFeatures(ModuleOp module)
    : module(module), trains(hasTraining(module)),
      parallel(getSetting<ParallelAttr>(module)),
      shards(getSetting<ShardsAttr>(module)),
      buckets(getSetting<BucketsAttr>(module)),
      step(getSetting<StepAttr>(module)),
      float8(getSetting<Float8Attr>(module)),
      offload(getSetting<OffloadAttr>(module)),
      optimizer(getSetting<OptimizerAttr>(module)),
      rules(getList<RuleAttr>(buckets.getRules())) {}

/// Not of what a program was captured with and never reads.
bool ModuleFeatures::hasDynamicLossScale() const {
  ModuleOp all = module;
  return getSetting<LossScaleAttr>(module).getInterval() != 0 &&
         llvm::any_of(all.getOps<StateOp>(), [](StateOp state) {
           return state.getRole() == Role::LossScale;
         });
}

Asked ModuleFeatures::ask(Feature feature) const {
  switch (feature) {
#define FSDP_FEATURE(name, key, words)
#define FSDP_DEVICE_LACKS(name, member) case Feature::name:
#include "ir/features/Features.def"
    return *askDevice(getTarget(module), feature);
  case Feature::TensorParallel:
    return askRanks("tp", parallel.getTp());
  case Feature::ContextParallel:
    return askRanks("cp", parallel.getCp());
  case Feature::SequenceParallel:
    return {parallel.getSequence()};
  case Feature::LocalIgnored:
    return {shards.getKeepIgnoredLocal()};
  case Feature::KeepGathered:
    return {step.getKeepGathered()};
  case Feature::GatheredForBackward:
    return {buckets.getReshard() == ReshardMode::None};
  case Feature::BucketReshards:
    return {llvm::any_of(rules, [](RuleAttr rule) {
      return rule.getReshard().value_or(1) != 1;
    })};
  case Feature::FlatLayout:
    return {(buckets.getLayout() == BucketLayout::Flat ||
             buckets.getLayout() == BucketLayout::Fsdp2) &&
            llvm::none_of(rules, [](RuleAttr rule) {
              return rule.getLayout().has_value();
            })};
  case Feature::OtherShardDims:
    return {llvm::any_of(
        getList<DimRuleAttr>(shards.getDims()),
        [](DimRuleAttr rule) { return rule.getDim().value_or(0) != 0; })};
  case Feature::AheadByRule:
  case Feature::BucketsByRule:
  case Feature::Prefetch:
  case Feature::NamedBuckets:
    return {}; // has been decided
  case Feature::Grains:
    return {step.getGrains() != 0};
  case Feature::MicroBatches:
    // With grains they follow from the ranks.
    return {step.getMicroBatches() > 1 && step.getGrains() == 0};
  case Feature::SyncNotLast:
    return {step.getMicroBatches() > 1 && step.getSync() != GradientSync::Last};
  case Feature::AllReduceLast:
    return {step.getSync() == GradientSync::AllReduceLast};
  case Feature::DivideFactor:
    return {bool(step.getDivideFactor())};
  case Feature::DivideInOptimizer:
    return {step.getDivideInOptimizer()};
  case Feature::ForceSum:
    return {step.getForceSum()};
  case Feature::NarrowWire:
    return {step.getReduceWire() || llvm::any_of(rules, [](RuleAttr rule) {
              return bool(rule.getReduceWire());
            })};
  case Feature::NormOfSums:
    return {optimizer.getNormOrder().getValueAsDouble() == 1};
  case Feature::Float8:
    return {bool(float8.getModules())};
  case Feature::Float8Gathers:
    return {float8.getModules() && float8.getAllGather()};
  case Feature::Float8Tensorwise:
    return {float8.getRecipe() == Float8Recipe::Tensorwise};
  case Feature::Quantize:
    return {bool(getSetting<QuantizeAttr>(module).getModules())};
  case Feature::OffloadParams:
    return {offload.getParams()};
  case Feature::OffloadOptimizer:
    return {offload.getOptimizer()};
  case Feature::OffloadActivations:
    return {bool(offload.getActivations())};
  case Feature::StateDType:
    return {trains && optimizer.getStateDtype() != StateDType::Parameter};
  case Feature::StochasticRounding:
    return {trains && optimizer.getStochasticRounding()};
  case Feature::UpdateOnHost:
    return {offload.getParams() || offload.getOptimizer()};
  case Feature::DynamicLossScale:
    return {hasDynamicLossScale()};
  case Feature::StepsWithNan: {
    auto policy = findSetting<OnNonFiniteAttr>(module);
    return {!policy || policy.getValue() != OnNonFinite::Skip};
  }
  }
  llvm_unreachable("all features are asked for by a setting, or by none");
}

namespace {

struct VerifyFeatures final : fsdp::impl::VerifyFeaturesBase<VerifyFeatures> {
  void runOnOperation() override {
    ModuleFeatures features(getOperation());
    for (const Relation &relation : getRelations()) {
      if (!relation.isBroken(
              [&](Feature feature) { return features.ask(feature).is; }))
        continue;
      getOperation().emitError(relation.describe([&](Feature feature) {
        return getWords(feature, features.ask(feature));
      }));
      return signalPassFailure();
    }
  }
};

} // namespace
