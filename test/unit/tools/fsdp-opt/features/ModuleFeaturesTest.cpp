//===- ModuleFeaturesTest.cpp - Configs and modules ask for the same ------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/verify/Features.h"

#include "support/Error.h"
#include "test/unit/tools/fsdp-opt/config/ConfigText.h"
#include "test/unit/tools/fsdp-opt/config/FeatureTexts.h"
#include "tools/fsdp-opt/compile/Annotate.h"
#include "tools/fsdp-opt/config/Combinations.h"
#include "tools/fsdp-opt/driver/Registration.h"

#include "mlir/Parser/Parser.h"

#include <random>

using namespace fsdp;
using namespace fsdp::test;
using namespace mlir;

namespace {

constexpr const char *kProgram = R"(
  module {
    fsdp.state parameter @w : tensor<4xf32>
    fsdp.state loss_scale @"loss/scale" : tensor<f32> init 65536.0 : f32
    func.func @"train/step"(
        %w: tensor<4xf32> {fsdp.state = @w},
        %scale: tensor<f32> {fsdp.state = @"loss/scale"},
        %x: tensor<f32> {fsdp.input = "x"})
        -> (tensor<f32> {fsdp.output = "loss"},
            tensor<4xf32> {fsdp.gradient = @w}) {
      return %x, %w : tensor<f32>, tensor<4xf32>
    }
  })";

class ModuleFeaturesTest : public testing::Test {
protected:
  ModuleFeaturesTest() {
    DialectRegistry registry;
    registerDialects(registry);
    context.appendDialectRegistry(registry);
    module = parseSourceString<ModuleOp>(kProgram, ParserConfig(&context));
  }

  /// What is asked of the program by that file.
  ModuleFeatures annotateWith(const Config &config) {
    annotate(*module, config);
    (*module)->setAttr(kDeviceAttr,
                       StringAttr::get(&context, config.target.describe()));
    return ModuleFeatures(*module);
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
};

/// As the parser does it, with what it would refuse. False for what no module
/// knows: which keys a file has, and what was decided by them.
bool turnOn(Config &config, Feature feature) {
  switch (feature) {
#define FSDP_FEATURE(...)
#define FSDP_DEVICE_LACKS(name, member) case Feature::name:
#include "ir/features/Features.def"
    config.target.device = Target::Device::Cuda;
    // Else divided by the optimizer there.
    config.divideInOptimizer = config.divideInOptimizer.value_or(false);
    return true;
  case Feature::TensorParallel:
    config.tp = 2;
    return true;
  case Feature::ContextParallel:
    config.cp = 2;
    return true;
  case Feature::SequenceParallel:
    config.sequenceParallel = true;
    return config.cp > 1 || config.tp > 1; // else it has no effect
  case Feature::LocalIgnored:
    config.reduceIgnoredParams = false;
    return true;
  case Feature::KeepGathered:
    config.keepGathered = true;
    return true;
  case Feature::GatheredForBackward:
    config.reshard = Reshard::None;
    return true;
  case Feature::BucketReshards:
    config.overrides.emplace_back().modules = {"a"};
    config.overrides.back().reshard = 2;
    return true;
  case Feature::FlatLayout:
    config.layout = LayoutChoice::Flat;
    return true;
  case Feature::OtherShardDims:
    config.shardDims = {{"w", 1}};
    return true;
  case Feature::AheadByRule:
  case Feature::BucketsByRule:
  case Feature::Prefetch:
  case Feature::NamedBuckets:
  case Feature::LabelMeans: // which only capture sees
  case Feature::LabelCount:
    return false;
  case Feature::Grains:
    config.grains = 4;
    return true;
  case Feature::MicroBatches:
    config.microBatches = 3;
    return config.grains == 0; // else they follow from the ranks
  case Feature::SyncNotLast:
    config.sync = Sync::Each;
    config.microBatches = 2; // one is not exchanged more often than all
    config.places["fsdp_config.gradient_sync"] = "fsdp.yaml:1:1";
    return true;
  case Feature::AllReduceLast:
    config.sync = Sync::AllReduceLast;
    return true;
  case Feature::DivideFactor:
    config.gradientDivideFactor = 3;
    return true;
  case Feature::DivideInOptimizer:
    config.divideInOptimizer = true;
    return true;
  case Feature::ForceSum:
    config.forceSumReduction = true;
    return true;
  case Feature::NarrowWire:
    config.reduceWireDtype = "float8";
    return true;
  case Feature::NormsByName:
    config.norms.gradients = true;
    return true;
  case Feature::NormOfSums:
    config.gradNormType = 1;
    return true;
  case Feature::Float8:
    config.float8.emplace();
    return true;
  case Feature::Float8Gathers:
  case Feature::Float8Tensorwise:
    // The attribute's own verifier knows more of it.
    config.float8.emplace().allGather = true;
    return true;
  case Feature::ScaledBlocks:
    config.float8.emplace().recipe = Float8Choice::Mxfp8;
    return true;
  case Feature::Quantize:
    config.quantize.emplace();
    return true;
  case Feature::OffloadParams:
    config.offloadParams = true;
    return true;
  case Feature::OffloadOptimizer:
    config.offloadOptimizer = true;
    return true;
  case Feature::GpuBeforeKernels:
  case Feature::GpuBeforeFloat8:
  case Feature::GpuBeforeScaledBlocks:
    config.target.device = Target::Device::Cuda;
    config.target.capability = 75;
    config.divideInOptimizer = config.divideInOptimizer.value_or(false);
    return true;
  case Feature::OwnKernels:
    config.kernels = true;
    return true;
  case Feature::StateDType:
    config.optimizer.stateDType = StateChoice::Int8;
    return true;
  case Feature::StochasticRounding:
    config.optimizer.stochasticRounding = true;
    return true;
  case Feature::Averages:
    config.ema.emplace();
    return true;
  case Feature::AveragedEval:
    config.validation.emplace().averaged = true;
    return true;
  case Feature::DynamicLossScale:
    config.lossScale.emplace();
    return true;
  case Feature::StepsWithNan:
    config.onNonFinite = plan::NonFinite::stop;
    config.places["on_nonfinite"] = "fsdp.yaml:1:1";
    return true;
  }
  return false;
}

bool isBroken(const Relation &relation, const Config &config) {
  return relation.isBroken([&](Feature each) { return ask(config, each).is; });
}
bool isBroken(const Relation &relation, const ModuleFeatures &features) {
  return relation.isBroken([&](Feature each) { return features.ask(each).is; });
}

TEST_F(ModuleFeaturesTest, EachRelationIsBrokenByBoth) {
  ASSERT_TRUE(module);
  size_t count = 0;
  for (const Relation &relation : getRelations()) {
    Config config;
    bool isKnown = true;
    for (Feature feature : llvm::reverse(relation.features))
      if (relation.kind == Relation::Kind::Conflict ||
          feature != relation.features.back())
        isKnown &= turnOn(config, feature);
    // The attribute of the other recipe cannot be written.
    if (!isKnown || relation.features.back() == Feature::Float8Tensorwise)
      continue;
    EXPECT_TRUE(isBroken(relation, config)) << relation.text;
    EXPECT_TRUE(isBroken(relation, annotateWith(config))) << relation.text;
    ++count;
  }
  EXPECT_GT(count, getRelations().size() - 6);
}

TEST_F(ModuleFeaturesTest, OthersAreBrokenByBothOrNeither) {
  ASSERT_TRUE(module);
  std::mt19937 random(11);
  size_t broken = 0;
  for (int round = 0; round < 200; ++round) {
    Config config;
    for (size_t i = 0; i < getFeatures().size(); ++i)
      if (auto each = static_cast<Feature>(i);
          random() % 6 == 0 && each != Feature::MicroBatches &&
          each != Feature::SyncNotLast && each != Feature::StepsWithNan)
        turnOn(config, each);
    if (config.lossScale) // as the parser completes it
      config.onNonFinite = plan::NonFinite::skip;
    ModuleFeatures features = annotateWith(config);
    for (const Relation &relation : getRelations()) {
      EXPECT_EQ(isBroken(relation, config), isBroken(relation, features))
          << relation.text;
      broken += isBroken(relation, config);
    }
  }
  EXPECT_GT(broken, 100u);
}

/// Files that parse give modules that verify.
TEST_F(ModuleFeaturesTest, WhatParsesVerifies) {
  ASSERT_TRUE(module);
  std::mt19937 random(13);
  size_t parsed = 0;
  for (int round = 0; round < 300; ++round) {
    ConfigYaml yaml;
    for (size_t i = 0; i < getFeatures().size(); ++i)
      if (random() % 8 == 0)
        yaml.add(static_cast<Feature>(i));
    if (!refusal(yaml.print()).empty())
      continue;
    ModuleFeatures features = annotateWith(parse(yaml.print()).config);
    for (const Relation &relation : getRelations())
      EXPECT_FALSE(isBroken(relation, features)) << relation.text << "\n"
                                                 << yaml.print();
    ++parsed;
  }
  EXPECT_GT(parsed, 10u);
}

} // namespace
