//===- Pipelines.h - The stages of the compiler -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each stage is a named pipeline. The tool and the library build the same
// ones: `options.world = 4; buildShardPipeline(manager, options)` and
// `--fsdp-shard-pipeline="world=4"` are the same passes with the same options.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_PIPELINES_H
#define FSDP_PASSES_PIPELINES_H

#include "passes/Passes.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassOptions.h"

namespace fsdp {

/// What the shard stage can be told. Fields are assigned like variables; their
/// names in text are the first string of each.
struct ShardStageOptions : virtual mlir::detail::PassOptions {
  Option<int64_t> world{*this, "world", llvm::cl::desc("number of ranks"),
                        llvm::cl::init(1)};
  Option<int64_t> replicate{*this, "replicate",
                            llvm::cl::desc("replicas of the shards"),
                            llvm::cl::init(1)};
  ListOption<std::string> ignore{
      *this, "ignore",
      llvm::cl::desc("patterns of names of parameters that are not sharded")};
  ListOption<std::string> shardDims{
      *this, "shard-dims",
      llvm::cl::desc("dims to shard along other than 0, 'pattern=dim'")};
  Option<bool> keepIgnoredLocal{
      *this, "keep-ignored-local",
      llvm::cl::desc("do not reduce the gradients of ignored parameters"),
      llvm::cl::init(false)};
  Option<bool> validate{*this, "validate",
                        llvm::cl::desc("add programs that only compute the "
                                       "loss"),
                        llvm::cl::init(false)};
  Option<int64_t> seed{*this, "seed",
                       llvm::cl::desc("where random sequences begin"),
                       llvm::cl::init(0)};
  Option<std::string> policy{
      *this, "policy",
      llvm::cl::desc("wrap policy: blocks, classes, size or none"),
      llvm::cl::init("blocks")};
  ListOption<std::string> classes{
      *this, "classes", llvm::cl::desc("module classes of policy 'classes'")};
  Option<int64_t> minParams{*this, "min-params",
                            llvm::cl::desc("parameters of policy 'size'"),
                            llvm::cl::init(100000000)};
  ListOption<std::string> buckets{
      *this, "buckets",
      llvm::cl::desc("buckets by name: NAME=PATTERN|PATTERN, of parameters or "
                     "modules")};
  Option<ReshardMode> reshard{
      *this, "reshard",
      llvm::cl::desc("which buckets are gathered again for backward"),
      llvm::cl::init(ReshardMode::AllButRoot),
      llvm::cl::values(clEnumValN(ReshardMode::All, "all", "every bucket"),
                       clEnumValN(ReshardMode::AllButRoot, "all-but-root",
                                  "every bucket but the root"),
                       clEnumValN(ReshardMode::None, "none", "no bucket"))};
  Option<int64_t> reshardRanks{
      *this, "reshard-ranks",
      llvm::cl::desc("ranks that a part is kept over for backward; 0: all"),
      llvm::cl::init(0)};
  ListOption<std::string> reshardOverrides{
      *this, "reshard-overrides",
      llvm::cl::desc("rules for single buckets, 'pattern=value'")};
  Option<BucketLayout> layout{
      *this, "layout", llvm::cl::desc("how the shards of a bucket lie"),
      llvm::cl::init(BucketLayout::Rows),
      llvm::cl::values(
          clEnumValN(BucketLayout::Auto, "auto", "flat where it can be"),
          clEnumValN(BucketLayout::Rows, "rows", "rows of each parameter"),
          clEnumValN(BucketLayout::Flat, "flat", "flat, or an error"),
          clEnumValN(BucketLayout::Fsdp2, "fsdp2", "rows, copied together"))};
  ListOption<std::string> layoutOverrides{
      *this, "layout-overrides",
      llvm::cl::desc("rules for single buckets, 'pattern=layout'")};
  Option<double> divideFactor{
      *this, "gradient-divide-factor",
      llvm::cl::desc("what gradients' sums over ranks are divided by; 0: the "
                     "number of ranks"),
      llvm::cl::init(0)};
  Option<bool> forceSum{*this, "force-sum-reduction",
                        llvm::cl::desc("reduce gradients by sums alone"),
                        llvm::cl::init(false)};
  Option<int64_t> scaleInterval{
      *this, "scale-interval",
      llvm::cl::desc("updates until the loss scale grows; 0: never"),
      llvm::cl::init(0)};
  Option<double> scaleGrowth{*this, "scale-growth",
                             llvm::cl::desc("by what the loss scale grows"),
                             llvm::cl::init(2.0)};
  Option<double> scaleBackoff{
      *this, "scale-backoff",
      llvm::cl::desc("by what it is multiplied where an update is left out"),
      llvm::cl::init(0.5)};
  Option<bool> divideInOptimizer{
      *this, "divide-in-optimizer",
      llvm::cl::desc("divide gradients in the optimizer where it can"),
      llvm::cl::init(false)};
  Option<int64_t> microBatches{*this, "micro-batches",
                               llvm::cl::desc("micro-batches of a step"),
                               llvm::cl::init(1)};
  Option<GradientSync> sync{
      *this, "sync",
      llvm::cl::desc("which reductions wait for the last micro-batch"),
      llvm::cl::init(GradientSync::Each),
      llvm::cl::values(clEnumValN(GradientSync::Each, "each", "none"),
                       clEnumValN(GradientSync::Last, "last", "all"),
                       clEnumValN(GradientSync::AllReduceLast,
                                  "all-reduce-last", "all-reduces"))};
  Option<bool> keepGathered{
      *this, "keep-gathered",
      llvm::cl::desc("gather parameters once for all micro-batches"),
      llvm::cl::init(false)};
  Option<std::string> optimizer{*this, "optimizer",
                                llvm::cl::desc("adamw, adam or sgd"),
                                llvm::cl::init("adamw")};
  Option<double> lr{*this, "lr", llvm::cl::desc("first learning rate"),
                    llvm::cl::init(1.0e-3)};
  Option<double> beta1{*this, "beta1", llvm::cl::desc("first moment's decay"),
                       llvm::cl::init(0.9)};
  Option<double> beta2{*this, "beta2", llvm::cl::desc("second moment's decay"),
                       llvm::cl::init(0.999)};
  Option<double> eps{*this, "eps", llvm::cl::desc("added to the denominator"),
                     llvm::cl::init(1.0e-8)};
  Option<double> weightDecay{*this, "weight-decay",
                             llvm::cl::desc("weight decay"),
                             llvm::cl::init(0.0)};
  Option<double> momentum{*this, "momentum", llvm::cl::desc("momentum of sgd"),
                          llvm::cl::init(0.0)};
  Option<bool> nesterov{*this, "nesterov",
                        llvm::cl::desc("Nesterov's momentum"),
                        llvm::cl::init(false)};
  Option<double> maxGradNorm{
      *this, "max-grad-norm",
      llvm::cl::desc("clip gradients to this global norm; inf does not clip"),
      llvm::cl::init(std::numeric_limits<double>::infinity())};
  Option<double> normOrder{
      *this, "norm-order",
      llvm::cl::desc("order of the global norm: 1, 2 or inf"),
      llvm::cl::init(2.0)};
  Option<bool> skipNonFinite{
      *this, "skip-non-finite",
      llvm::cl::desc("make no update where the loss or the norm is a NaN or "
                     "infinite"),
      llvm::cl::init(false)};
  ListOption<std::string> groups{
      *this, "groups",
      llvm::cl::desc("groups of parameters with settings of their own: "
                     "PATTERN|PATTERN:NAME=VALUE;NAME=VALUE")};
};

/// What the schedule stage can be told.
struct ScheduleStageOptions : virtual mlir::detail::PassOptions {
  Option<int64_t> prefetch{
      *this, "prefetch",
      llvm::cl::desc("buckets that are gathered ahead of the one in use"),
      llvm::cl::init(1)};
};

struct ShardOptions : mlir::PassPipelineOptions<ShardOptions>,
                      ShardStageOptions {};
struct ScheduleOptions : mlir::PassPipelineOptions<ScheduleOptions>,
                         ScheduleStageOptions {};
/// All stages.
struct CompileOptions : mlir::PassPipelineOptions<CompileOptions>,
                        ShardStageOptions,
                        ScheduleStageOptions {};

/// Captured program -> sharded program beside its reference.
void buildShardPipeline(mlir::OpPassManager &manager,
                        const ShardStageOptions &options);

/// Sharded program beside its reference -> scheduled program.
void buildSchedulePipeline(mlir::OpPassManager &manager,
                           const ScheduleStageOptions &options);

/// Scheduled program -> planned program.
void buildPlanPipeline(mlir::OpPassManager &manager);

/// All stages: captured program -> planned program.
void buildPipeline(mlir::OpPassManager &manager, const CompileOptions &options);

/// Makes the pipelines known by name: `fsdp-shard-pipeline`,
/// `fsdp-schedule-pipeline`, `fsdp-plan-pipeline` and `fsdp-pipeline`. Call
/// once a process.
void registerPipelines();

} // namespace fsdp

#endif // FSDP_PASSES_PIPELINES_H
