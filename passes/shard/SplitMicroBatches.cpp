//===- SplitMicroBatches.cpp - A step of several micro-batches ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/Passes.h"
#include "passes/analysis/Entries.h"
#include "passes/analysis/GradientChains.h"
#include "passes/analysis/Programs.h"
#include "passes/analysis/StateAppender.h"
#include "passes/analysis/States.h"
#include "passes/analysis/Transfers.h"
#include "passes/shard/Metrics.h"
#include "plan/Grains.h"

#include "mlir/IR/TypeUtilities.h"

#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace fsdp;

namespace fsdp {
#define GEN_PASS_DEF_SPLITMICROBATCHES
#include "passes/Passes.h.inc"
} // namespace fsdp

namespace {

/// The running sums of a step, which all programs of a module share.
class Sums {
public:
  explicit Sums(ModuleOp module) : module(module), appender(module) {}

  /// Emits an error if another program sums values of another type.
  FailureOr<StateOp> get(const Twine &name, Role role, RankedTensorType type,
                         StateOp of, ShardingAttr sharding, Location loc) {
    std::string text = name.str();
    StateOp &state = states[text];
    if (!state) {
      state = appender.append(module.getLoc(), text, role, type, of, sharding);
    } else if (state.getGlobalType() != type ||
               state.getSharding() != sharding) {
      InFlightDiagnostic diagnostic =
          emitError(loc) << "expects a sum of type " << state.getGlobalType()
                         << " as in other programs of the "
                            "module, found "
                         << type;
      diagnostic.attachNote(state.getLoc()) << "the sum";
      return failure();
    }
    return state;
  }

private:
  ModuleOp module;
  StateAppender appender;
  llvm::StringMap<StateOp> states;
};

/// A value of each micro-batch that a step needs the sum of.
struct Summand {
  OpOperand *use; ///< what reads the mean in the last micro-batch
  StateOp sum;
  FlatSymbolRefAttr of; ///< of a gradient
  unsigned result;      ///< of the program, which it comes to
};

/// Rewrites one part of a step.
class PartBuilder {
public:
  PartBuilder(func::FuncOp func, StepPart part, GradientSync sync,
              int64_t count, bool hasGrains, Sums &sums)
      : func(func), part(part), sync(sync), count(count), hasGrains(hasGrains),
        sums(sums), states(func->getParentOfType<ModuleOp>()),
        builder(func.getContext()),
        terminator(func.getBody().front().getTerminator()) {}

  LogicalResult run() {
    OpOperand &loss = terminator->getOpOperand(0);
    loss.set(widenMetric(builder, loss.get()));
    if (failed(collect()))
      return failure();
    SmallVector<StateOp> sumStates = llvm::map_to_vector(
        summands, [](const Summand &each) { return each.sum; });
    SmallVector<BlockArgument> arguments = addStateArguments(func, sumStates);
    for (auto [summand, argument] : llvm::zip_equal(summands, arguments))
      add(summand, argument);
    setResults();
    eraseDead();
    return success();
  }

private:
  LogicalResult collect() {
    llvm::DenseMap<Attribute, SmallVector<Operation *, 2>> reductions;
    for (Operation &op : func.getBody().front())
      if (ReductionOpInterface reduction = asGradientReduction(&op))
        reductions[reduction.getGradientOf(0)].push_back(reduction);
    for (OpOperand &operand : terminator->getOpOperands()) {
      unsigned i = operand.getOperandNumber();
      LogicalResult done = success();
      if (auto of =
              func.getResultAttrOfType<FlatSymbolRefAttr>(i, kGradientAttr))
        done = collectGradient(operand, of, reductions.lookup(of));
      else if (i == 0)
        done = collectNumber(
            operand, func.getResultAttrOfType<StringAttr>(i, kOutputAttr));
      else if (auto name = func.getResultAttrOfType<StringAttr>(i, kMetricAttr))
        done = collectNumber(operand, name);
      if (failed(done))
        return failure();
    }
    return success();
  }

  LogicalResult collectGradient(OpOperand &result, FlatSymbolRefAttr of,
                                ArrayRef<Operation *> reductions) {
    StateOp param = states.lookup(of);
    if (!param)
      return func.emitError("has a gradient of '")
             << of.getValue() << "', which is no state of the module";
    // What is left for the last micro-batch begins here.
    const auto *deferred = reductions.end();
    if (sync == GradientSync::Last)
      deferred = reductions.begin();
    else if (sync == GradientSync::AllReduceLast)
      deferred = llvm::find_if(reductions, llvm::IsaPred<AllReduceOp>);
    OpOperand *use =
        deferred == reductions.end() ? &result : &(*deferred)->getOpOperand(0);
    bool isShard = llvm::any_of(llvm::make_range(reductions.begin(), deferred),
                                llvm::IsaPred<ReduceScatterOp>);
    auto type = cast<RankedTensorType>(use->get().getType());
    FailureOr<StateOp> sum = sums.get(
        param.getSymName() + "/gradient", Role::Gradient,
        getSumType(param.getGlobalType().getShape(), type.getElementType()),
        param, isShard ? param.getSharding() : ShardingAttr(), func.getLoc());
    if (failed(sum))
      return failure();
    summands.push_back({use, *sum, of, result.getOperandNumber()});
    if (deferred != reductions.begin())
      late.insert(use);
    return success();
  }

  /// A number over all ranks is that of this rank in front of the exchange.
  LogicalResult collectNumber(OpOperand &result, StringAttr name) {
    OpOperand *use = &result;
    if (auto reduce = result.get().getDefiningOp<AllReduceOp>();
        reduce && !isOfStep(reduce))
      use = &reduce->getOpOperand(0);
    FailureOr<StateOp> sum =
        sums.get(name.getValue() + "/sum", Role::Scalar,
                 getSumType({}, getElementTypeOrSelf(use->get().getType())),
                 StateOp(), ShardingAttr(), func.getLoc());
    if (failed(sum))
      return failure();
    summands.push_back({use, *sum, {}, result.getOperandNumber()});
    return success();
  }

  /// Of grains as many sums side by side as their tree leaves open.
  RankedTensorType getSumType(ArrayRef<int64_t> shape, Type element) const {
    SmallVector<int64_t> dims(shape);
    if (hasGrains)
      dims.insert(dims.begin(), countPartialSums(uint32_t(count)));
    return RankedTensorType::get(dims, element);
  }

  /// Behind the gradient; the last one's sum is what comes of all.
  Value addGrain(const Summand &summand, BlockArgument sum, Value value) {
    bool isLast = part == StepPart::Last;
    if (isLast && late.contains(summand.use))
      builder.setInsertionPoint(summand.use->getOwner());
    else
      builder.setInsertionPointAfterValue(value);
    return AccumulateOp::create(
        builder, value.getLoc(), isLast ? value.getType() : sum.getType(), sum,
        value, summand.of, IntegerAttr(), builder.getUnitAttr());
  }

  void add(const Summand &summand, BlockArgument sum) {
    Value value = summand.use->get();
    if (hasGrains)
      value = addGrain(summand, sum, value);
    else if (part != StepPart::First) {
      // What a transfer of several members yields is there when all are; all
      // else is added where it is computed, so that it does not live on.
      bool isLast = part == StepPart::Last;
      if (late.contains(summand.use))
        builder.setInsertionPoint(isLast ? summand.use->getOwner()
                                         : terminator);
      else
        builder.setInsertionPointAfterValue(value);
      value = AccumulateOp::create(
          builder, value.getLoc(), sum.getType(), sum, value, summand.of,
          isLast ? builder.getI64IntegerAttr(count) : IntegerAttr(),
          UnitAttr());
    }
    if (part == StepPart::Last)
      summand.use->set(value);
    else
      running[summand.result] = {value, summand.sum};
  }

  /// Running sums in place of means and gradients.
  void setResults() {
    SmallVector<DictionaryAttr> attributes;
    SmallVector<Value> values;
    for (unsigned i = 0; i < func.getNumResults(); ++i) {
      NamedAttrList list(func.getResultAttrDict(i));
      // All grains of a step draw at one place of the sequence.
      if (hasGrains && part != StepPart::Last && isRandom(i))
        continue;
      if (auto it = running.find(i); it != running.end()) {
        auto [value, sum] = it->second;
        terminator->setOperand(i, value);
        list.erase(kGradientAttr);
        list.set(kStateAttr, FlatSymbolRefAttr::get(sum.getSymNameAttr()));
      }
      attributes.push_back(list.getDictionary(func.getContext()));
      values.push_back(terminator->getOperand(i));
    }
    terminator->setOperands(values);
    func.setFunctionType(builder.getFunctionType(
        func.getArgumentTypes(), terminator->getOperandTypes()));
    func.setAllResultAttrs(attributes);
  }

  bool isRandom(unsigned result) {
    StateOp state = states.lookup(
        func.getResultAttrOfType<FlatSymbolRefAttr>(result, kStateAttr));
    return state && state.getRole() == Role::Random;
  }

  /// Reductions that only the last micro-batch needs, and what reads them.
  void eraseDead() {
    for (Operation &op :
         llvm::make_early_inc_range(llvm::reverse(func.getBody().front())))
      if (op.use_empty() &&
          (isa<ReductionOpInterface>(op) || isShardSide(&op)) &&
          isOpTriviallyDead(&op))
        op.erase();
  }

  func::FuncOp func;
  StepPart part;
  GradientSync sync;
  int64_t count;
  bool hasGrains;
  Sums &sums;
  StateTable states;
  OpBuilder builder;
  Operation *terminator;
  SmallVector<Summand> summands;
  llvm::DenseSet<OpOperand *> late; ///< behind reductions
  llvm::DenseMap<unsigned, std::pair<Value, StateOp>> running; ///< by result
};

struct SplitMicroBatches final
    : fsdp::impl::SplitMicroBatchesBase<SplitMicroBatches> {
  void runOnOperation() override {
    if (failed(run(getOperation())))
      signalPassFailure();
  }

private:
  LogicalResult run(ModuleOp module) {
    auto told = getSetting<StepAttr>(module);
    int64_t microBatches = told.getMicroBatches();
    SmallVector<func::FuncOp> programs = getPrograms(module);
    llvm::erase_if(programs, isInference);
    if (microBatches == 1 || programs.empty())
      return success();
    if (!module->hasAttr(kMeshAttr))
      return module.emitError(
          "expects a sharded program; run fsdp-shard-parameters first");
    for (func::FuncOp program : programs)
      if (failed(verify(program)))
        return failure();
    SmallVector<StepPart> parts{StepPart::First, StepPart::Middle,
                                StepPart::Last};
    if (microBatches == 2)
      parts.erase(parts.begin() + 1);
    Sums sums(module);
    for (func::FuncOp program : programs) {
      OpBuilder builder(program);
      for (StepPart part : parts) {
        auto clone = cast<func::FuncOp>(builder.clone(*program));
        setProgram(clone, getProgram(program).withPart(part));
        if (failed(PartBuilder(clone, part, told.getSync(), microBatches,
                               told.getGrains() != 0, sums)
                       .run()))
          return failure();
      }
      program.erase();
    }
    module->setAttr(
        kMicroBatchesAttr,
        IntegerAttr::get(IntegerType::get(&getContext(), 64), microBatches));
    return success();
  }

  static LogicalResult verify(func::FuncOp program) {
    if (getStepPart(program) != StepPart::Whole)
      return program.emitError("expects a whole step, which was not split yet");
    if (program.getNumResults() == 0 || !program.getResultAttr(0, kOutputAttr))
      return program.emitError("expects the loss as its first result");
    for (Operation &op : program.getBody().front())
      if (isa<UpdateOp>(op))
        return op.emitOpError("updates parameters; run this pass before "
                              "fsdp-insert-optimizer");
    return success();
  }
};

} // namespace
