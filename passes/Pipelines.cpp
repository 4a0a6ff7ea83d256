//===- Pipelines.cpp - The stages of the compiler -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/Pipelines.h"

#include "mlir/Pass/PassRegistry.h"

using namespace mlir;
using namespace fsdp;

//===----------------------------------------------------------------------===//
// --fsdp-shard-pipeline
//===----------------------------------------------------------------------===//

void fsdp::buildShardPipeline(OpPassManager &manager,
                              const ShardStageOptions &options) {
  // What they compute is compared with a reference of their own.
  if (options.validate)
    manager.addPass(createAddValidation());

  // From here on nothing may change the mathematics: what capture made is kept
  // to compare with.
  manager.addPass(createVerifyCaptured());
  manager.addPass(createSnapshotReference());

  SetSeedOptions seed;
  seed.seed = options.seed;
  manager.addPass(createSetSeed(seed));

  AssignBucketsOptions buckets;
  buckets.policy = options.policy;
  buckets.classes.assign(options.classes.begin(), options.classes.end());
  buckets.minParams = options.minParams;
  buckets.named.assign(options.buckets.begin(), options.buckets.end());
  manager.addPass(createAssignBuckets(buckets));

  ShardParametersOptions shard;
  shard.world = options.world;
  shard.replicate = options.replicate;
  shard.ignore.assign(options.ignore.begin(), options.ignore.end());
  shard.dims.assign(options.shardDims.begin(), options.shardDims.end());
  shard.keepIgnoredLocal = options.keepIgnoredLocal;
  manager.addPass(createShardParameters(shard));

  // Before the second gathers, so that these gather the cast shard as well.
  manager.addPass(createMoveCastsToShards());

  // The types that gradients are reduced in are settled.
  DivideGradientsOptions divide;
  divide.factor = options.divideFactor;
  divide.forceSum = options.forceSum;
  divide.inOptimizer = options.divideInOptimizer;
  manager.addPass(createDivideGradients(divide));

  ReshardAfterForwardOptions reshard;
  reshard.mode = options.reshard;
  reshard.ranks = options.reshardRanks;
  reshard.overrides.assign(options.reshardOverrides.begin(),
                           options.reshardOverrides.end());
  manager.addPass(createReshardAfterForward(reshard));

  // When casts and second gathers have found their places; sums, norms and
  // updates are then made of flat gradients to begin with.
  FlattenBucketsOptions flatten;
  flatten.layout = options.layout;
  flatten.overrides.assign(options.layoutOverrides.begin(),
                           options.layoutOverrides.end());
  flatten.groups.assign(options.groups.begin(), options.groups.end());
  manager.addPass(createFlattenBuckets(flatten));

  // Before the optimizer, whose clipping reads what travels with them.
  manager.addPass(createInsertMetrics());

  // After the metrics, whose numbers are summed in front of their exchange.
  SplitMicroBatchesOptions split;
  split.microBatches = options.microBatches;
  split.sync = options.sync;
  manager.addPass(createSplitMicroBatches(split));
  if (options.keepGathered)
    manager.addPass(createKeepGathered());

  // After the second gathers: the optimizer reads shards and must not count as
  // backward.
  InsertOptimizerOptions optimizer;
  optimizer.name = options.optimizer;
  optimizer.lr = options.lr;
  optimizer.beta1 = options.beta1;
  optimizer.beta2 = options.beta2;
  optimizer.eps = options.eps;
  optimizer.weightDecay = options.weightDecay;
  optimizer.momentum = options.momentum;
  optimizer.nesterov = options.nesterov;
  optimizer.maxGradNorm = options.maxGradNorm;
  optimizer.normOrder = options.normOrder;
  optimizer.skipNonFinite = options.skipNonFinite;
  optimizer.scaleInterval = options.scaleInterval;
  optimizer.scaleGrowth = options.scaleGrowth;
  optimizer.scaleBackoff = options.scaleBackoff;
  optimizer.groups.assign(options.groups.begin(), options.groups.end());
  manager.addPass(createInsertOptimizer(optimizer));

  manager.addPass(createVerifySharded());
  manager.addPass(createVerifyEquivalent());
}

//===----------------------------------------------------------------------===//
// --fsdp-schedule-pipeline
//===----------------------------------------------------------------------===//

void fsdp::buildSchedulePipeline(OpPassManager &manager,
                                 const ScheduleStageOptions &options) {
  manager.addPass(createBucketCollectives());

  ScheduleCollectivesOptions schedule;
  schedule.prefetch = options.prefetch;
  manager.addPass(createScheduleCollectives(schedule));

  // Last uses are known once the order is.
  manager.addPass(createInsertFrees());

  // Copies stand where transfers start and end.
  manager.addPass(createCopyBuckets());

  manager.addPass(createVerifyScheduled());
  manager.addPass(createVerifyEquivalent());

  // Addresses, not ops, change from here on.
  manager.addPass(createDropReference());
}

//===----------------------------------------------------------------------===//
// --fsdp-plan-pipeline
//===----------------------------------------------------------------------===//

void fsdp::buildPlanPipeline(OpPassManager &manager) {
  // Before the streams: they put work on the compute stream.
  manager.addPass(createLowerShardDims());
  manager.addPass(createMaterializeStorages());
  manager.addPass(createInsertZeroPadding());
  manager.addPass(createAssignStreams());

  manager.addPass(createPlanMemory());
  manager.addPass(createVerifyPlanned());
}

//===----------------------------------------------------------------------===//
// --fsdp-pipeline
//===----------------------------------------------------------------------===//

void fsdp::buildPipeline(OpPassManager &manager,
                         const CompileOptions &options) {
  buildShardPipeline(manager, options);
  buildSchedulePipeline(manager, options);
  buildPlanPipeline(manager);
}

void fsdp::registerPipelines() {
  PassPipelineRegistration<ShardOptions>(
      "fsdp-shard-pipeline", "captured program -> sharded program",
      [](OpPassManager &manager, const ShardOptions &options) {
        buildShardPipeline(manager, options);
      });
  PassPipelineRegistration<ScheduleOptions>(
      "fsdp-schedule-pipeline", "sharded program -> scheduled program",
      [](OpPassManager &manager, const ScheduleOptions &options) {
        buildSchedulePipeline(manager, options);
      });
  PassPipelineRegistration<>("fsdp-plan-pipeline",
                             "scheduled program -> planned program",
                             buildPlanPipeline);
  PassPipelineRegistration<CompileOptions>(
      "fsdp-pipeline", "all stages: captured program -> planned program",
      buildPipeline);
}
