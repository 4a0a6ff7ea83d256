//===- Compile.cpp - From a captured program to a planned one -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/Compile.h"

#include "passes/Pipelines.h"
#include "tools/fsdp-opt/Annotate.h"
#include "tools/fsdp-opt/Diagnostics.h"

#include "mlir/Pass/PassInstrumentation.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Support/Timing.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <charconv>

using namespace fsdp;
using namespace mlir;

namespace {
/// Remembers which pass failed.
struct FailureWatch : PassInstrumentation {
  explicit FailureWatch(std::string &failed) : failed(failed) {}

  void runAfterPassFailed(Pass *pass, Operation *) override {
    // The innermost comes first.
    if (failed.empty())
      failed = pass->getArgument().str();
  }

  std::string &failed;
};

/// The keys that tell a pass what to do.
constexpr std::pair<llvm::StringLiteral, llvm::StringLiteral> kKeysOfPasses[] =
    {
        {"fsdp-assign-buckets", "fsdp_config.auto_wrap_policy"},
        {"fsdp-assign-buckets", "fsdp_config.transformer_layer_cls_to_wrap"},
        {"fsdp-assign-buckets", "fsdp_config.buckets"},
        {"fsdp-shard-parameters", "fsdp_config.ignored_params"},
        {"fsdp-shard-parameters", "fsdp_config.shard_dims"},
        {"fsdp-reshard-after-forward", "fsdp_config.reshard_after_forward"},
        {"fsdp-reshard-after-forward", "fsdp_config.overrides"},
        {"fsdp-flatten-buckets", "fsdp_config.bucket_layout"},
        {"fsdp-flatten-buckets", "fsdp_config.shard_dims"},
        {"fsdp-flatten-buckets", "fsdp_config.overrides"},
        {"fsdp-flatten-buckets", "optimizer"},
        {"fsdp-keep-gathered", "fsdp_config.reshard_after_backward"},
        {"fsdp-insert-optimizer", "optimizer"},
        {"fsdp-insert-optimizer", "loss_scale"},
};

/// "; see 'shard_dims' at fsdp.yaml:3:5" of what `pass` was told.
std::string describeCauses(llvm::StringRef pass, const Config &config) {
  std::string text;
  for (auto [each, key] : kKeysOfPasses)
    if (auto place = config.places.find(key);
        each == pass && place != config.places.end())
      text += (text.empty() ? "; the config asks for it with '" : ", '") +
              (key.contains('.') ? key.rsplit('.').second : key).str() +
              "' at " + place->second;
  return text;
}

const char *getPolicyName(WrapPolicy policy) {
  switch (policy) {
  case WrapPolicy::Blocks:
    return "blocks";
  case WrapPolicy::Classes:
    return "classes";
  case WrapPolicy::Size:
    return "size";
  case WrapPolicy::None:
    return "none";
  }
  llvm_unreachable("all policies are named");
}

ReshardMode getReshardMode(Reshard reshard) {
  switch (reshard) {
  case Reshard::All:
    return ReshardMode::All;
  case Reshard::AllButRoot:
    return ReshardMode::AllButRoot;
  case Reshard::None:
    return ReshardMode::None;
  }
  llvm_unreachable("all modes have a counterpart");
}

BucketLayout getBucketLayout(LayoutChoice layout) {
  switch (layout) {
  case LayoutChoice::Auto:
    return BucketLayout::Auto;
  case LayoutChoice::Rows:
    return BucketLayout::Rows;
  case LayoutChoice::Flat:
    return BucketLayout::Flat;
  case LayoutChoice::Fsdp2:
    return BucketLayout::Fsdp2;
  }
  llvm_unreachable("all layouts have a counterpart");
}

/// As the pass fsdp-flatten-buckets reads it.
std::string_view getLayoutName(LayoutChoice layout) {
  return layout == LayoutChoice::Auto   ? "auto"
         : layout == LayoutChoice::Rows ? "rows"
         : layout == LayoutChoice::Flat ? "flat"
                                        : "fsdp2";
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

/// With all its digits.
std::string formatExactly(double value) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof(text), value).ptr};
}

/// As the pass fsdp-insert-optimizer reads it.
std::string printGroup(const OptimizerGroup &group) {
  std::string text = llvm::join(group.patterns, "|") + ":";
  auto add = [&](StringRef name, std::optional<double> value) {
    if (value)
      text += llvm::formatv("{0}={1};", name, formatExactly(*value)).str();
  };
  add("lr", group.lr);
  add("beta1", group.beta1);
  add("beta2", group.beta2);
  add("eps", group.eps);
  add("momentum", group.momentum);
  add("weight-decay", group.weightDecay);
  if (group.nesterov)
    text += *group.nesterov ? "nesterov=true;" : "nesterov=false;";
  return text;
}

GradientSync getGradientSync(Sync sync) {
  switch (sync) {
  case Sync::Each:
    return GradientSync::Each;
  case Sync::Last:
    return GradientSync::Last;
  case Sync::AllReduceLast:
    return GradientSync::AllReduceLast;
  }
  llvm_unreachable("all choices have a counterpart");
}

void setOptions(ShardOptions &options, const Config &config) {
  options.world = config.dpShard * config.dpReplicate;
  options.replicate = config.dpReplicate;
  options.ignore = config.ignoredParams;
  options.shardDims = config.shardDims;
  options.keepIgnoredLocal = !config.reduceIgnoredParams;
  options.validate = config.validation.has_value();
  options.seed = config.seed;
  options.policy = std::string(getPolicyName(config.wrapPolicy));
  options.classes = config.wrapClasses;
  options.minParams = config.minParams;
  std::vector<std::string> buckets;
  for (const NamedBucket &bucket : config.buckets)
    buckets.push_back(bucket.name + "=" + llvm::join(bucket.patterns, "|"));
  options.buckets = buckets;
  options.reshard = getReshardMode(config.reshard);
  if (config.reshard == Reshard::All)
    options.reshardRanks = config.reshardRanks;
  std::vector<std::string> reshardRules;
  for (const ModuleOverride &override : config.overrides)
    if (!override.reshard.empty())
      for (const std::string &pattern : override.modules)
        reshardRules.push_back(pattern + "=" + override.reshard);
  options.reshardOverrides = reshardRules;
  options.layout = getBucketLayout(config.layout);
  std::vector<std::string> layoutRules;
  for (const ModuleOverride &override : config.overrides)
    if (override.layout)
      for (const std::string &pattern : override.modules)
        layoutRules.push_back(pattern + "=" +
                              std::string(getLayoutName(*override.layout)));
  options.layoutOverrides = layoutRules;
  options.divideFactor = config.gradientDivideFactor.value_or(0);
  options.forceSum = config.forceSumReduction;
  options.divideInOptimizer = dividesInOptimizer(config);
  options.microBatches = config.microBatches;
  options.sync = getGradientSync(config.sync);
  options.keepGathered = config.keepGathered;
  const OptimizerConfig &optimizer = config.optimizer;
  options.optimizer = optimizer.name;
  options.lr = optimizer.lr;
  options.beta1 = optimizer.beta1;
  options.beta2 = optimizer.beta2;
  options.eps = optimizer.eps;
  options.weightDecay = optimizer.weightDecay;
  options.momentum = optimizer.momentum;
  options.nesterov = optimizer.nesterov;
  std::vector<std::string> groups;
  for (const OptimizerGroup &group : optimizer.groups)
    groups.push_back(printGroup(group));
  options.groups = groups;
  options.normOrder = config.gradNormType;
  options.skipNonFinite = config.onNonFinite == plan::NonFinite::skip;
  if (config.maxGradNorm)
    options.maxGradNorm = *config.maxGradNorm;
  if (config.lossScale) {
    options.scaleInterval = config.lossScale->growthInterval;
    options.scaleGrowth = config.lossScale->growthFactor;
    options.scaleBackoff = config.lossScale->backoffFactor;
  }
}
} // namespace

void fsdp::compileProgram(ModuleOp module, const Config &config,
                          StageObserver observer) {
  MLIRContext *context = module.getContext();
  DefaultTimingManager timing;
  applyDefaultTimingManagerCLOptions(timing);
  TimingScope scope = timing.getRootScope();

  auto runStage = [&](const char *stage, const char *savedAs,
                      llvm::function_ref<void(OpPassManager &)> build) {
    DiagnosticCollector diagnostics(context);
    PassManager manager(context);
    std::string failedPass;
    TimingScope stageScope = scope.nest(stage);
    bool ready = succeeded(applyPassManagerCLOptions(manager));
    manager.enableTiming(stageScope);
    manager.addInstrumentation(std::make_unique<FailureWatch>(failedPass));
    build(manager);
    if (!ready || failed(manager.run(module))) {
      std::string who = std::string("the ") + stage + " stage";
      if (!failedPass.empty())
        who += " (pass " + failedPass + ")";
      throw diagnostics.makeError(ErrorId::StageRefused,
                                  who + " refused the program" +
                                      describeCauses(failedPass, config));
    }
    observer(savedAs, module);
  };

  annotate(module, config);
  runStage("shard", "2-sharded", [&](OpPassManager &manager) {
    ShardOptions options;
    setOptions(options, config);
    buildShardPipeline(manager, options);
  });
  runStage("schedule", "3-scheduled", [&](OpPassManager &manager) {
    ScheduleOptions options;
    options.prefetch = config.prefetch;
    buildSchedulePipeline(manager, options);
  });
  runStage("plan", "4-planned", buildPlanPipeline);
}

void fsdp::assignBuckets(ModuleOp module, const Config &config) {
  ShardOptions all;
  setOptions(all, config);
  AssignBucketsOptions options;
  options.policy = all.policy;
  options.classes.assign(all.classes.begin(), all.classes.end());
  options.minParams = all.minParams;
  options.named.assign(all.buckets.begin(), all.buckets.end());
  DiagnosticCollector diagnostics(module.getContext());
  PassManager manager(module.getContext());
  manager.addPass(createAssignBuckets(options));
  if (failed(manager.run(module)))
    throw diagnostics.makeError(ErrorId::StageRefused,
                                "the parameters cannot be put into buckets");
}
