//===- VerifyGrains.cpp - That bits do not depend on the ranks ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/aten/Matchers.h"
#include "passes/Passes.h"
#include "passes/analysis/Mesh.h"
#include "passes/analysis/Programs.h"
#include "passes/analysis/States.h"
#include "passes/analysis/Transfers.h"
#include "plan/Grains.h"

#include "mlir/IR/TypeUtilities.h"

#include <cmath>

using namespace mlir;
using namespace fsdp;

namespace fsdp {
#define GEN_PASS_DEF_VERIFYGRAINS
#include "passes/Passes.h.inc"
} // namespace fsdp

namespace {

/// Of one program that trains.
class GrainsVerifier {
public:
  GrainsVerifier(func::FuncOp func, const StateTable &states, int64_t grains)
      : func(func), states(states), grains(grains) {
    for (BlockArgument argument : func.getArguments()) {
      StateOp state = states.lookup(func, argument.getArgNumber());
      if (state && state.getSharding())
        shards.insert(argument);
    }
  }

  LogicalResult verify() {
    for (Operation &op : func.getBody().front()) {
      if (failed(verifyOp(op)))
        return failure();
      followShards(op);
    }
    return verifyResults();
  }

private:
  LogicalResult verifyOp(Operation &op) const {
    if (auto reduction = dyn_cast<ReductionOpInterface>(op))
      return verifyReduction(reduction);
    if (auto sum = dyn_cast<AccumulateOp>(op); sum && !sum.getTree())
      return op.emitOpError("adds a grain in the order of this rank's own, "
                            "which other numbers of ranks do not have; "
                            "expected 'tree'");
    if (isa<UpdateOp, SquareSumOp>(op))
      return success();
    if (aten::isNorm(&op) && readsShard(op) && !isGreatest(op))
      return op.emitOpError("sums over a shard, which other numbers of ranks "
                            "cut elsewhere; expected 'fsdp.square_sum'");
    if (isa<ShardOp, SummandOp>(op) && isOfStep(&op))
      return op.emitOpError("is a part of a step that several ranks compute "
                            "together; expected each grain on one rank");
    return success();
  }

  LogicalResult verifyReduction(ReductionOpInterface op) const {
    Type element = getElementTypeOrSelf(op->getOperand(0).getType());
    Reduction reduction = op.getReduction();
    if (reduction == Reduction::Max ||
        (reduction == Reduction::Sum && isa<IntegerType>(element)))
      return success();
    if (reduction != Reduction::Tree)
      return op->emitOpError("combines ranks by '")
             << stringifyReduction(reduction)
             << "', whose roundings depend on how many there are; expected "
                "'tree', or a sum of integers";
    if (element.isF16())
      return op->emitOpError("sums ")
             << grains
             << " grains in f16 before it divides, which overflows; expected "
                "bf16 or f32 (mixed_precision: {reduce_dtype: float32})";
    if (op.getPreAttr())
      return op->emitOpError("divides each rank's sum; expected one division "
                             "behind the tree");
    return success();
  }

  bool readsShard(Operation &op) const {
    return llvm::any_of(op.getOperands(), [&](Value operand) {
      return shards.contains(operand);
    });
  }

  /// A norm that rounds nothing.
  static bool isGreatest(Operation &op) {
    auto order = op.getAttrOfType<FloatAttr>("ord");
    return order && std::isinf(order.getValueAsDouble());
  }

  void followShards(Operation &op) {
    if (isa<ReduceScatterOp, ShardOp>(op) ||
        (isShardSide(&op) && readsShard(op)) ||
        (isa<AllReduceOp, AccumulateOp>(op) && readsShard(op)))
      shards.insert(op.result_begin(), op.result_end());
  }

  /// What a step leaves is a function of all grains.
  LogicalResult verifyResults() {
    Operation *terminator = func.getBody().front().getTerminator();
    for (auto [i, value] : llvm::enumerate(terminator->getOperands())) {
      StateOp state = states.lookup(
          func.getResultAttrOfType<FlatSymbolRefAttr>(i, kStateAttr));
      if (!state || state.getRole() != Role::Buffer)
        continue;
      Operation *op = value.getDefiningOp();
      return (op ? op : func.getOperation())->emitError("changes the buffer '")
             << state.getSymName()
             << "' by each rank's own grains, so that it depends on how many "
                "ranks there are; leave fsdp_config.grains out, or freeze the "
                "statistics (module.eval())";
    }
    return success();
  }

  func::FuncOp func;
  const StateTable &states;
  int64_t grains;
  llvm::DenseSet<Value> shards;
};

struct VerifyGrains final : fsdp::impl::VerifyGrainsBase<VerifyGrains> {
  void runOnOperation() override {
    if (failed(verify(getOperation())))
      signalPassFailure();
  }

private:
  static LogicalResult verify(ModuleOp module) {
    int64_t grains = getSetting<StepAttr>(module).getGrains();
    if (grains == 0)
      return success();
    if (failed(verifyRanks(module, grains)))
      return failure();
    StateTable states(module);
    for (StateOp state : module.getOps<StateOp>())
      if (failed(verifyState(state)))
        return failure();
    for (func::FuncOp func : getPrograms(module))
      if (!isInference(func) &&
          failed(GrainsVerifier(func, states, grains).verify()))
        return failure();
    return success();
  }

  /// Each computes the leaves of one node.
  static LogicalResult verifyRanks(ModuleOp module, int64_t grains) {
    FailureOr<MeshAttr> mesh = getDataMesh(module);
    if (failed(mesh))
      return failure();
    int64_t shards = getShardSize(*mesh);
    auto blocks =
        dealGrains(static_cast<uint32_t>(grains),
                   static_cast<uint32_t>(mesh->getWorldSize() / shards),
                   static_cast<uint32_t>(shards));
    if (blocks.empty())
      return module.emitError("expected at least one of ")
             << grains << " grains a rank, found " << mesh->getWorldSize()
             << " ranks";
    int64_t most = getMostGrains(blocks);
    if (int64_t found = getMicroBatches(module); found != most)
      return module.emitError("expected ")
             << most << " micro-batches, as many as grains of one rank, found "
             << found;
    return success();
  }

  static LogicalResult verifyState(StateOp state) {
    if (state.getRole() != Role::Parameter)
      return success();
    if (state.isLocal())
      return state.emitOpError("is each rank's own, so that it depends on how "
                               "many ranks there are; expected its gradient to "
                               "be averaged over them");
    if (state.getGlobalType().getElementType().isF64())
      return state.emitOpError("is trained in f64, whose squares have no exact "
                               "sum; expected f32 or a half with grains");
    return success();
  }
};

} // namespace
