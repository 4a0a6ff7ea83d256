//===- ShardParameters.cpp - Each rank holds its rows --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/Passes.h"
#include "passes/analysis/Programs.h"

using namespace mlir;
using namespace fsdp;

namespace fsdp {
#define GEN_PASS_DEF_SHARDPARAMETERS
#include "passes/Passes.h.inc"
} // namespace fsdp

namespace {

struct ShardParameters final
    : fsdp::impl::ShardParametersBase<ShardParameters> {
  using Base::Base;

  void runOnOperation() override {
    if (failed(run(getOperation())))
      signalPassFailure();
  }

private:
  LogicalResult run(ModuleOp module) {
    if (world < 1)
      return module.emitError("expected a world size of at least 1, found ")
             << world.getValue();
    if (module->hasAttr(kMeshAttr))
      return module.emitError("is sharded already: it carries '")
             << kMeshAttr << "'";
    auto mesh =
        MeshAttr::get(&getContext(), StringAttr::get(&getContext(), "shard"),
                      world.getValue());
    if (world > 1) {
      group = mesh.getGroup("shard");
      auto sharding = ShardingAttr::get(&getContext(), /*dim=*/0, group);
      for (StateOp state : module.getOps<StateOp>()) {
        if (!isParameter(state))
          continue;
        if (failed(verifyShardable(state)))
          return failure();
        state.setShardingAttr(sharding);
      }
    }
    StateTable states(module);
    for (func::FuncOp func : getPrograms(module)) {
      if (!func->hasAttr(kCapturedAttr))
        continue;
      func->removeAttr(kCapturedAttr);
      if (world == 1)
        continue;
      if (failed(shardArguments(func, states)) ||
          failed(reduceGradients(func, states)))
        return failure();
    }
    module->setAttr(kMeshAttr, mesh);
    return success();
  }

  static LogicalResult verifyShardable(StateOp state) {
    if (state.getGlobalType().getRank() != 0)
      return success();
    return state.emitOpError("expects a parameter with at least one dim to "
                             "shard, found a scalar; give it the shape [1], or "
                             "register it as a buffer");
  }

  /// Puts a gather in front of the first op that reads a parameter.
  LogicalResult shardArguments(func::FuncOp func, const StateTable &states) {
    llvm::DenseMap<Operation *, unsigned> positions;
    for (auto [i, op] : llvm::enumerate(func.getBody().front()))
      positions[&op] = i;
    for (BlockArgument argument : func.getArguments()) {
      StateOp state = states.lookup(func, argument.getArgNumber());
      if (!state || !state.getSharding())
        continue;
      auto full = cast<RankedTensorType>(argument.getType());
      if (full.getEncoding())
        return state.emitOpError(
            "expects a parameter that is contiguous, found strides; call "
            "contiguous() on it before the export");
      argument.setType(state.getLocalType());
      if (argument.use_empty())
        continue;
      Operation *first = *llvm::min_element(
          argument.getUsers(), [&](Operation *a, Operation *b) {
            return positions.at(a) < positions.at(b);
          });
      OpBuilder builder(first);
      auto gather = AllGatherOp::create(builder, argument.getLoc(), full,
                                        argument, /*dim=*/0, group);
      argument.replaceAllUsesExcept(gather.getFull(), gather);
    }
    setTypes(func);
    return success();
  }

  /// Puts a reduction behind each gradient.
  LogicalResult reduceGradients(func::FuncOp func, const StateTable &states) {
    Operation *terminator = func.getBody().front().getTerminator();
    for (OpOperand &operand : terminator->getOpOperands()) {
      auto of = func.getResultAttrOfType<FlatSymbolRefAttr>(
          operand.getOperandNumber(), kGradientAttr);
      if (!of)
        continue;
      StateOp state = states.lookup(of);
      if (!state)
        return func.emitError("has a gradient of '")
               << of.getValue() << "', which is no state of the module";
      Value gradient = operand.get();
      OpBuilder builder(terminator);
      if (Operation *op = gradient.getDefiningOp())
        builder.setInsertionPointAfter(op);
      auto reduce = ReduceScatterOp::create(
          builder, gradient.getLoc(), state.getLocalType(), gradient,
          Reduction::Avg, /*dim=*/0, group, of);
      operand.set(reduce.getShard());
    }
    setTypes(func);
    return success();
  }

  static void setTypes(func::FuncOp func) {
    Block &body = func.getBody().front();
    func.setFunctionType(
        FunctionType::get(func.getContext(), body.getArgumentTypes(),
                          body.getTerminator()->getOperandTypes()));
  }

  GroupAttr group;
};

} // namespace
