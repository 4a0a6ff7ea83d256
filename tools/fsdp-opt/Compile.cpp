//===- Compile.cpp - From a captured program to a planned one -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/Compile.h"

#include "passes/Pipelines.h"
#include "tools/fsdp-opt/Diagnostics.h"

#include "mlir/Pass/PassInstrumentation.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Support/Timing.h"

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

void setOptions(ShardOptions &options, const Config &config) {
  options.world = config.dpShard;
  options.seed = config.seed;
  options.policy = std::string(getPolicyName(config.wrapPolicy));
  options.classes = config.wrapClasses;
  options.minParams = config.minParams;
  options.reshard = getReshardMode(config.reshard);
  const OptimizerConfig &optimizer = config.optimizer;
  options.optimizer = optimizer.name;
  options.lr = optimizer.lr;
  options.beta1 = optimizer.beta1;
  options.beta2 = optimizer.beta2;
  options.eps = optimizer.eps;
  options.weightDecay = optimizer.weightDecay;
  options.momentum = optimizer.momentum;
  if (config.maxGradNorm)
    options.maxGradNorm = *config.maxGradNorm;
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
                                  who + " refused the program");
    }
    observer(savedAs, module);
  };

  runStage("shard", "2-sharded", [&](OpPassManager &manager) {
    ShardOptions options;
    setOptions(options, config);
    buildShardPipeline(manager, options);
  });
  runStage("schedule", "3-scheduled", [](OpPassManager &manager) {
    buildSchedulePipeline(manager, ScheduleOptions());
  });
  runStage("plan", "4-planned", buildPlanPipeline);
}
