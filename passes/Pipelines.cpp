//===- Pipelines.cpp - The stages of the compiler -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/Pipelines.h"
#include "passes/analysis/Mesh.h"

#include "mlir/Pass/PassOptions.h"
#include "mlir/Pass/PassRegistry.h"

using namespace mlir;
using namespace fsdp;

//===----------------------------------------------------------------------===//
// --fsdp-shard-pipeline
//===----------------------------------------------------------------------===//

/// What changes the model, which is then compared with the rest.
static void addModelPasses(OpPassManager &manager) {
  // Passes rely on it, and do not ask again.
  manager.addPass(createVerifyFeatures());

  // While matrices of the model are what products read.
  manager.addPass(createFindAdapters());

  // Approximations that were asked for. Validation has the same forward.
  manager.addPass(createQuantizeBases());
  manager.addPass(createFloat8Linears());

  // Changes sums by their rounding.
  manager.addPass(createChunkLoss());
  manager.addPass(createSpellLosses());
  manager.addPass(createSumLosses());

  // What they compute is compared with a reference of their own.
  manager.addPass(createAddValidation());

  // From here on nothing may change the mathematics: what capture made is kept
  // to compare with.
  manager.addPass(createVerifyCaptured());
  manager.addPass(createSnapshotReference());
}

void fsdp::buildShardPipeline(OpPassManager &manager) {
  addModelPasses(manager);

  // What each rank computes of a step; all that follows sees parts only.
  for (StringRef axis : {kTensorAxis, kContextAxis}) {
    manager.addPass(createPartition({axis.str()}));
    manager.addPass(createVerifyPlaced({axis.str()}));
  }

  manager.addPass(createSetSeed());
  manager.addPass(createAssignBuckets());
  manager.addPass(createAssignGroups());
  manager.addPass(createShardParameters());

  // Before the second gathers, so that these gather the cast shard as well.
  manager.addPass(createFloat8Gathers());
  manager.addPass(createMoveCastsToShards());

  // The types that gradients are reduced in are settled.
  manager.addPass(createDivideGradients());

  // What is computed again reads parameters in backward: before the second
  // gathers, which are then one for both.
  manager.addPass(createRecompute());
  manager.addPass(createDequantizeAtReaders());
  manager.addPass(createReshardAfterForward());

  // When casts and second gathers have found their places; sums, norms and
  // updates are then made of flat gradients to begin with.
  manager.addPass(createFlattenBuckets());

  // Before the optimizer, whose clipping reads what travels with them.
  manager.addPass(createInsertMetrics());

  // After the metrics, whose numbers are summed in front of their exchange.
  manager.addPass(createSplitMicroBatches());
  manager.addPass(createKeepGathered());

  // After the second gathers: the optimizer reads shards and must not count as
  // backward.
  manager.addPass(createInsertOptimizer());

  // The last that asks in what type gradients are.
  manager.addPass(createNarrowWires());

  // Last: it looks at where each tensor is read.
  manager.addPass(createOffloadStates());
  manager.addPass(createOffloadActivations());

  manager.addPass(createVerifySharded());
  manager.addPass(createVerifyGrains());
  manager.addPass(createVerifyEquivalent());
}

//===----------------------------------------------------------------------===//
// --fsdp-schedule-pipeline
//===----------------------------------------------------------------------===//

void fsdp::buildSchedulePipeline(OpPassManager &manager) {
  manager.addPass(createBucketCollectives());

  // Behind collectives: what reads a reduction moved behind all of its members.
  manager.addPass(createBucketCopies());
  manager.addPass(createScheduleCollectives());

  // Last uses are known once the order is.
  manager.addPass(createInsertFrees());

  manager.addPass(createVerifyScheduled());
  manager.addPass(createVerifyEquivalent());

  // Addresses, not ops, change from here on.
  manager.addPass(createDropReference());
}

//===----------------------------------------------------------------------===//
// --fsdp-plan-pipeline
//===----------------------------------------------------------------------===//

namespace {
/// What a module does not say.
struct PlanPipelineOptions : PassPipelineOptions<PlanPipelineOptions> {
  Option<bool> exchangeWires{
      *this, "exchange-wires",
      llvm::cl::desc("exchange parts of wider sums on all devices")};
};
} // namespace

static void addPlanPasses(OpPassManager &manager,
                          const PlanPipelineOptions &options) {
  // Copies stand where transfers start and end.
  manager.addPass(createLowerEncodings());
  manager.addPass(createCopyBuckets());
  manager.addPass(createLowerWindows());
  manager.addPass(createLowerDocuments());
  manager.addPass(createLowerContext());
  manager.addPass(createLowerRing());
  manager.addPass(createLowerLookups());
  manager.addPass(createLowerParts());
  manager.addPass(createLowerShardDims());
  manager.addPass(createLowerSummands());
  manager.addPass(createLowerWires({options.exchangeWires}));
  manager.addPass(createMaterializeStorages());
  manager.addPass(createInsertZeroPadding());

  // Ops are in their final order, and no pass looks for operators any more.
  manager.addPass(createFuseKernels());

  // Behind kernels, which read gradients in bf16 where they can.
  manager.addPass(createWidenProducts());

  // Addresses, not ops, change from here on.
  manager.addPass(createPlanMemory());
  manager.addPass(createVerifyPlanned());
  manager.addPass(createVerifyMemory());
}

void fsdp::buildPlanPipeline(OpPassManager &manager) {
  addPlanPasses(manager, PlanPipelineOptions());
}

//===----------------------------------------------------------------------===//
// --fsdp-pipeline
//===----------------------------------------------------------------------===//

void fsdp::buildPipeline(OpPassManager &manager) {
  buildShardPipeline(manager);
  buildSchedulePipeline(manager);
  buildPlanPipeline(manager);
}

void fsdp::registerPipelines() {
  PassPipelineRegistration<>("fsdp-shard-pipeline",
                             "captured program -> sharded program",
                             buildShardPipeline);
  PassPipelineRegistration<>("fsdp-schedule-pipeline",
                             "sharded program -> scheduled program",
                             buildSchedulePipeline);
  PassPipelineRegistration<PlanPipelineOptions>(
      "fsdp-plan-pipeline", "scheduled program -> planned program",
      addPlanPasses);
  PassPipelineRegistration<>("fsdp-pipeline",
                             "all stages: captured program -> planned program",
                             buildPipeline);
}
