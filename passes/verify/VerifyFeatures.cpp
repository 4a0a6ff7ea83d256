//===- VerifyFeatures.cpp - That what is asked for goes together ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/Passes.h"
#include "passes/analysis/CudaSyncs.h"
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
      quantize(getSetting<QuantizeAttr>(module)),
      offload(getSetting<OffloadAttr>(module)),
      optimizer(getSetting<OptimizerAttr>(module)) {}

bool ModuleFeatures::anyRule(llvm::function_ref<bool(RuleAttr)> is) const {
  return llvm::any_of(getList<RuleAttr>(buckets.getRules()), is);
}

static bool drops(RuleAttr rule) { return rule.getReshard().value_or(1) != 1; }
static bool laysOut(RuleAttr rule) { return rule.getLayout().has_value(); }
static bool narrows(RuleAttr rule) { return bool(rule.getReduceWire()); }

bool ModuleFeatures::cutsOtherDims() const {
  return llvm::any_of(
      getList<DimRuleAttr>(shards.getDims()),
      [](DimRuleAttr rule) { return rule.getDim().value_or(0) != 0; });
}

bool ModuleFeatures::hasDynamicLossScale() const {
  ModuleOp all = module;
  return getSetting<LossScaleAttr>(module).getInterval() != 0 &&
         llvm::any_of(all.getOps<StateOp>(), [](StateOp state) {
           return state.getRole() == Role::LossScale;
         });
}

bool ModuleFeatures::reportsNorms() const {
  return trains && findSetting<ReportedNormsAttr>(module);
}

bool ModuleFeatures::averagesWeights() const {
  return trains && findSetting<EmaAttr>(module);
}

bool ModuleFeatures::validatesAverages() const {
  auto validation = findSetting<ValidationAttr>(module);
  return trains && validation && validation.getAveraged();
}

bool ModuleFeatures::skipsNonFinite() const {
  auto policy = findSetting<OnNonFiniteAttr>(module);
  return policy && policy.getValue() == OnNonFinite::Skip;
}

Asked ModuleFeatures::ask(Feature feature) const {
  const Device &device = getTarget(module);
  switch (feature) {
#define FSDP_FEATURE(name, key, words, ofConfig, ofModule)                     \
  case Feature::name:                                                          \
    return ofModule;
#include "ir/features/Features.def"
  }
  llvm_unreachable("all features are in the table");
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
