//===- KeepGathered.cpp - Gather once a step ------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/Passes.h"
#include "passes/analysis/Entries.h"
#include "passes/analysis/Programs.h"
#include "passes/analysis/StateAppender.h"
#include "passes/analysis/States.h"
#include "passes/analysis/TensorBuilders.h"
#include "passes/analysis/Transfers.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace fsdp;

namespace fsdp {
#define GEN_PASS_DEF_KEEPGATHERED
#include "passes/Passes.h.inc"
} // namespace fsdp

namespace {

/// A gather of the program and the state that keeps its result.
struct Kept {
  AllGatherOp gather;
  StateOp state;
};

struct KeepGathered final : fsdp::impl::KeepGatheredBase<KeepGathered> {
  void runOnOperation() override {
    if (failed(run(getOperation())))
      signalPassFailure();
  }

private:
  LogicalResult run(ModuleOp module) {
    if (!getSetting<StepAttr>(module).getKeepGathered())
      return success();
    SmallVector<std::pair<func::FuncOp, SmallVector<Kept>>> programs;
    for (func::FuncOp func : getPrograms(module)) {
      if (getStepPart(func) == StepPart::Whole)
        continue;
      programs.push_back({func, {}});
      if (failed(collect(func, programs.back().second)))
        return failure();
    }
    for (auto &[func, kept] : programs)
      if (getStepPart(func) == StepPart::First)
        keep(func, kept);
      else
        read(func, kept);
    return success();
  }

  LogicalResult collect(func::FuncOp func, SmallVector<Kept> &kept) {
    StateTable states(func->getParentOfType<ModuleOp>());
    // Gathers of a parameter in several types are several.
    llvm::DenseMap<Operation *, unsigned> numbers;
    for (auto gather : func.getOps<AllGatherOp>()) {
      if (isOfStep(gather))
        continue;
      BlockArgument source = getShardSource(gather.getShard());
      StateOp param =
          source ? states.lookup(func, source.getArgNumber()) : StateOp();
      if (!param || !isParameter(param))
        return gather.emitOpError("expects to gather a parameter");
      for (Operation *op = gather.getShard().getDefiningOp(); op;
           op = op->getOperand(0).getDefiningOp())
        if (isa<ReplayOp>(op))
          return gather.emitOpError("gathers '")
                 << param.getSymName()
                 << "' a second time; expected parameters that stay gathered "
                    "after forward, with reshard 'none'";
      FailureOr<StateOp> state = declare(gather, param, numbers[param]++);
      if (failed(state))
        return failure();
      kept.push_back({gather, *state});
    }
    return success();
  }

  /// Room for the padding, too: the ranks' rows land one behind the other.
  static RankedTensorType getPaddedType(AllGatherOp gather) {
    auto shard = cast<RankedTensorType>(gather.getShard().getType());
    SmallVector<int64_t> shape(shard.getShape());
    shape[gather.getDim()] *= gather.getGroup().getSize();
    return RankedTensorType::get(shape, shard.getElementType());
  }

  FailureOr<StateOp> declare(AllGatherOp gather, StateOp param,
                             unsigned number) {
    ModuleOp module = getOperation();
    std::string name = (param.getSymName() + "/gathered").str();
    if (number != 0)
      name += "/" + std::to_string(number);
    RankedTensorType type = getPaddedType(gather);
    auto state = module.lookupSymbol<StateOp>(name);
    if (!state)
      return StateAppender(module).append(param.getLoc(), name, Role::Gathered,
                                          type, param);
    if (state.getGlobalType() != type)
      return gather.emitOpError("expects to gather ")
             << state.getGlobalType() << " as in other programs, found "
             << type;
    return state;
  }

  /// The parameter without the padding behind its last rows: a view along the
  /// first dim, a copy along another one.
  static Value cutPadding(OpBuilder &builder, Value padded,
                          AllGatherOp gather) {
    auto full = cast<RankedTensorType>(gather.getFull().getType());
    if (padded.getType() == full)
      return padded;
    auto dim = static_cast<int64_t>(gather.getDim());
    RankedTensorType type = full;
    if (dim != 0)
      type = aten::getTensorType(
          full.getShape(),
          aten::getStrides(cast<RankedTensorType>(padded.getType())),
          full.getElementType());
    Value cut =
        aten::buildAtenOp(
            builder, gather.getLoc(), "aten.slice.Tensor", {padded},
            {builder.getNamedAttr("dim", builder.getI64IntegerAttr(dim)),
             builder.getNamedAttr("start", builder.getI64IntegerAttr(0)),
             builder.getNamedAttr(
                 "end", builder.getI64IntegerAttr(full.getDimSize(dim)))},
            type)
            ->getResult(0);
    return type == full ? cut
                        : buildContiguousCopy(builder, gather.getLoc(), cut);
  }

  static void keep(func::FuncOp func, ArrayRef<Kept> kept) {
    // New values are results, whose states are arguments.
    addStateArguments(func, llvm::map_to_vector(kept, [](const Kept &each) {
                        return each.state;
                      }));
    Operation *terminator = func.getBody().front().getTerminator();
    SmallVector<Value> values(terminator->getOperands());
    SmallVector<DictionaryAttr> attributes;
    func.getAllResultAttrs(attributes);
    OpBuilder builder(func.getContext());
    for (auto [gather, state] : kept) {
      builder.setInsertionPoint(gather);
      auto padded = AllGatherOp::create(
          builder, gather.getLoc(), state.getGlobalType(), gather.getShard(),
          gather.getDim(), gather.getGroup(), PartsAttr());
      values.push_back(padded.getFull());
      attributes.push_back(builder.getDictionaryAttr(builder.getNamedAttr(
          kStateAttr, FlatSymbolRefAttr::get(state.getSymNameAttr()))));
      Value rows = cutPadding(builder, padded.getFull(), gather);
      AllGatherOp old = gather;
      old.getFull().replaceAllUsesWith(rows);
      old.erase();
    }
    // A gather that was a result of its own is the kept one now.
    for (auto [i, operand] : llvm::enumerate(terminator->getOperands()))
      values[i] = operand;
    terminator->setOperands(values);
    func.setFunctionType(builder.getFunctionType(
        func.getArgumentTypes(), ValueRange(values).getTypes()));
    func.setAllResultAttrs(attributes);
  }

  static void read(func::FuncOp func, ArrayRef<Kept> kept) {
    SmallVector<BlockArgument> arguments = addStateArguments(
        func,
        llvm::map_to_vector(kept, [](const Kept &each) { return each.state; }));
    OpBuilder builder(func.getContext());
    for (auto [each, argument] : llvm::zip_equal(kept, arguments)) {
      AllGatherOp gather = each.gather;
      builder.setInsertionPoint(gather);
      gather.getFull().replaceAllUsesWith(
          cutPadding(builder, argument, gather));
      Value shard = gather.getShard();
      gather.erase();
      // Casts that nothing else reads.
      while (Operation *op = shard.getDefiningOp()) {
        if (!op->use_empty())
          break;
        shard = op->getOperand(0);
        op->erase();
      }
    }
  }
};

} // namespace
