//===- VerifySharded.cpp - The contract of a sharded program -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/Passes.h"
#include "passes/analysis/Optimizers.h"
#include "passes/analysis/Programs.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace fsdp;

namespace fsdp {
#define GEN_PASS_DEF_VERIFYSHARDED
#include "passes/Passes.h.inc"
} // namespace fsdp

namespace {

class ShardingVerifier {
public:
  ShardingVerifier(func::FuncOp func, const StateTable &states, int64_t ranks)
      : func(func), states(states), ranks(ranks) {}

  LogicalResult verify() {
    for (Operation &op : func.getBody().front())
      if (failed(verifyStage(op)) || failed(collectReduction(op)) ||
          failed(verifyPadding(op)))
        return failure();
    if (isInference(func))
      return verifyNoUpdates();
    if (failed(verifyReductions()))
      return failure();
    return verifyUpdates();
  }

private:
  static LogicalResult verifyStage(Operation &op) {
    if (isStart(&op) ||
        isa<WaitOp, FreeOp, RecordOp, AwaitOp, ZeroPaddingOp>(op))
      return op.emitOpError("belongs to a later stage; expected logical "
                            "collectives only");
    return success();
  }

  /// The reductions that a parameter's gradient goes through.
  struct Chain {
    int64_t ranks = 1;
    Operation *last = nullptr;
  };

  template <typename ReduceOp>
  LogicalResult addReduction(ReduceOp op) {
    StateOp state = states.lookup(op.getOfAttr());
    if (!op.getOf())
      return success();
    if (!state || state.getRole() != Role::Parameter)
      return op.emitOpError("reduces a gradient of '")
             << *op.getOf() << "', which is no trained parameter";
    if (op.getReduction() != Reduction::Avg)
      return op.emitOpError("expects a gradient to be averaged, found ")
             << stringifyReduction(op.getReduction());
    Chain &chain = chains[state];
    if (chain.last && op->getOperand(0).getDefiningOp() != chain.last) {
      InFlightDiagnostic diagnostic =
          op.emitOpError("reduces the gradient of '")
          << *op.getOf() << "' a second time";
      diagnostic.attachNote(chain.last->getLoc()) << "first reduction here";
      return diagnostic;
    }
    chain.last = op;
    chain.ranks *= op.getGroup().getSize();
    return success();
  }

  LogicalResult collectReduction(Operation &op) {
    if (auto reduce = dyn_cast<ReduceScatterOp>(op))
      return addReduction(reduce);
    if (auto reduce = dyn_cast<AllReduceOp>(op))
      return addReduction(reduce);
    return success();
  }

  /// Invariant P: rows beyond the end of a shard are zero.
  LogicalResult verifyPadding(Operation &op) {
    auto isOfShard = [&](Value value) {
      if (auto argument = dyn_cast<BlockArgument>(value)) {
        StateOp state = states.lookup(func, argument.getArgNumber());
        return state && state.getSharding();
      }
      return shards.contains(value);
    };
    bool reads = llvm::any_of(op.getOperands(), isOfShard);
    bool keeps = isShardSide(&op) || isa<AllReduceOp>(op) ||
                 getOptimizerUpdate(&op).has_value();
    if (reads && !keeps &&
        !isa<AllGatherOp, ReduceScatterOp, func::ReturnOp>(op) && !isNorm(op))
      return op.emitOpError("reads a shard, whose padding rows it may change; "
                            "expected casts, collectives, norms and "
                            "optimizers only");
    if (isa<ReduceScatterOp, ShardOp>(op) || (reads && keeps))
      for (Value result : op.getResults())
        shards.insert(result);
    return success();
  }

  static bool isNorm(Operation &op) {
    StringRef name = op.getName().getStringRef();
    return name == "aten._foreach_norm.Scalar" ||
           name == "aten.linalg_vector_norm";
  }

  LogicalResult verifyReductions() {
    for (unsigned i = 0; i < func.getNumArguments(); ++i) {
      StateOp state = states.lookup(func, i);
      if (!state || state.getRole() != Role::Parameter)
        continue;
      params[state] = func.getArgument(i);
      int64_t found = chains.lookup(state).ranks;
      if (found != ranks)
        return state.emitOpError("expects its gradient to be reduced over ")
               << ranks << " ranks, found " << found;
    }
    return success();
  }

  LogicalResult verifyNoUpdates() {
    if (!chains.empty())
      return chains.begin()->second.last->emitOpError(
          "reduces a gradient in a program for inference");
    for (Operation &op : func.getBody().front())
      if (getOptimizerUpdate(&op))
        return op.emitOpError("updates parameters in a program for inference");
    return success();
  }

  /// Each parameter is updated once, with its reduced gradient, and the result
  /// is its new value.
  LogicalResult verifyUpdates() {
    llvm::DenseMap<Value, Operation *> updates;
    for (Operation &op : func.getBody().front()) {
      std::optional<OptimizerUpdate> update = getOptimizerUpdate(&op);
      if (!update)
        continue;
      for (auto [param, grad, result] :
           llvm::zip(update->params, update->grads, update->newParams)) {
        if (auto [it, isNew] = updates.try_emplace(param, &op); !isNew) {
          InFlightDiagnostic diagnostic =
              op.emitOpError("updates a parameter a second time");
          diagnostic.attachNote(it->second->getLoc()) << "first update here";
          return diagnostic;
        }
        if (failed(verifyUpdate(&op, param, grad, result)))
          return failure();
      }
    }
    // Before the optimizer is inserted, gradients are results.
    for (auto [state, param] : params)
      if (!updates.empty() && !updates.contains(param))
        return cast<StateOp>(state).emitOpError(
            "expects to be updated by an optimizer");
    return success();
  }

  LogicalResult verifyUpdate(Operation *op, Value param, Value grad,
                             Value result) {
    auto argument = dyn_cast<BlockArgument>(param);
    StateOp state =
        argument ? states.lookup(func, argument.getArgNumber()) : StateOp();
    if (!state || state.getRole() != Role::Parameter)
      return op->emitOpError("updates what is no trained parameter");
    if (ranks > 1 && grad.getDefiningOp() != chains.lookup(state).last)
      return op->emitOpError("updates '")
             << state.getSymName()
             << "' with something else than its reduced gradient";
    auto bound = FlatSymbolRefAttr::get(state.getSymNameAttr());
    for (OpOperand &use : result.getUses())
      if (isa<func::ReturnOp>(use.getOwner()) &&
          func.getResultAttr(use.getOperandNumber(), kStateAttr) == bound)
        return success();
    return op->emitOpError("computes a new '")
           << state.getSymName() << "' that is not returned as its value";
  }

  func::FuncOp func;
  const StateTable &states;
  int64_t ranks;
  llvm::DenseMap<Operation *, Chain> chains;
  llvm::MapVector<Operation *, Value> params;
  llvm::DenseSet<Value> shards;
};

struct VerifySharded final : fsdp::impl::VerifyShardedBase<VerifySharded> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto mesh = module->getAttrOfType<MeshAttr>(kMeshAttr);
    if (!mesh) {
      module.emitError("expects a sharded program, with '")
          << kMeshAttr << "' on the module";
      return signalPassFailure();
    }
    StateTable states(module);
    for (func::FuncOp func : getPrograms(module))
      if (failed(ShardingVerifier(func, states, mesh.getWorldSize()).verify()))
        return signalPassFailure();
  }
};

} // namespace
