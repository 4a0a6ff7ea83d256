//===- Compile.cpp - From a captured program to a planned one -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/compile/Compile.h"

#include "passes/Pipelines.h"
#include "tools/fsdp-opt/compile/Annotate.h"
#include "tools/fsdp-opt/input/Diagnostics.h"
#include "tools/fsdp-opt/input/Progress.h"

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

/// Tells people which pass runs.
struct ProgressWatch : PassInstrumentation {
  explicit ProgressWatch(const char *stage) : stage(stage) {}

  void runBeforePass(Pass *pass, Operation *) override {
    if (llvm::StringRef name = pass->getArgument(); !name.empty())
      Progress::enter((stage + ", " + name).str());
  }

  llvm::StringRef stage;
};

/// The keys that tell a pass what to do.
constexpr std::pair<llvm::StringLiteral, llvm::StringLiteral> kKeysOfPasses[] =
    {
        {"fsdp-assign-buckets", "fsdp_config.auto_wrap_policy"},
        {"fsdp-assign-buckets", "fsdp_config.transformer_layer_cls_to_wrap"},
        {"fsdp-assign-buckets", "fsdp_config.buckets"},
        {"fsdp-shard-parameters", "fsdp_config.ignored_params"},
        {"fsdp-shard-parameters", "fsdp_config.shard_dims"},
        {"fsdp-recompute", "fsdp_config.activation_checkpointing"},
        {"fsdp-reshard-after-forward", "fsdp_config.reshard_after_forward"},
        {"fsdp-reshard-after-forward", "fsdp_config.overrides"},
        {"fsdp-flatten-buckets", "fsdp_config.bucket_layout"},
        {"fsdp-flatten-buckets", "fsdp_config.shard_dims"},
        {"fsdp-flatten-buckets", "fsdp_config.overrides"},
        {"fsdp-schedule-collectives", "fsdp_config.overrides"},
        {"fsdp-keep-gathered", "fsdp_config.reshard_after_backward"},
        {"fsdp-assign-groups", "optimizer"},
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
    manager.addInstrumentation(std::make_unique<ProgressWatch>(stage));
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
  runStage("shard", "2-sharded", buildShardPipeline);
  runStage("schedule", "3-scheduled", buildSchedulePipeline);
  runStage("plan", "4-planned", buildPlanPipeline);
}

void fsdp::assignBuckets(ModuleOp module, const Config &config) {
  annotate(module, config);
  DiagnosticCollector diagnostics(module.getContext());
  PassManager manager(module.getContext());
  manager.addPass(createAssignBuckets());
  if (failed(manager.run(module)))
    throw diagnostics.makeError(ErrorId::StageRefused,
                                "the parameters cannot be put into buckets");
}
