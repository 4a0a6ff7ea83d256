//===- InsertOptimizer.cpp - From gradients to new parameters ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/Passes.h"
#include "passes/analysis/Entries.h"
#include "passes/shard/GradientNorm.h"
#include "passes/shard/OptimizerKinds.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace fsdp;

namespace fsdp {
#define GEN_PASS_DEF_INSERTOPTIMIZER
#include "passes/Passes.h.inc"
} // namespace fsdp

namespace {

/// A result of the program and the attributes that bind it.
struct BoundResult {
  Value value;
  DictionaryAttr attributes;
};

/// A trained parameter with its gradient and the states kept of it.
struct Trained {
  StateOp state;
  BlockArgument param;
  Value grad;
  SmallVector<StateOp, 2> moments;
  SmallVector<BlockArgument, 2> momentArguments;
};

FlatSymbolRefAttr refTo(StateOp state) {
  return FlatSymbolRefAttr::get(state.getSymNameAttr());
}

/// The optimizer's states, which all programs of a module share.
struct OptimizerStates {
  llvm::DenseMap<Operation *, SmallVector<StateOp, 2>> moments; // by parameter
  StateOp step, lr;
};

/// Declares them behind the module's other states, those of `params` in order.
OptimizerStates declareStates(ModuleOp module, ArrayRef<StateOp> params,
                              const OptimizerKind &kind,
                              const InsertOptimizerOptions &options) {
  OptimizerStates states;
  OpBuilder builder(module.getContext());
  StateOp last;
  for (StateOp state : module.getOps<StateOp>())
    last = state;
  builder.setInsertionPointAfter(last);
  auto declare = [&](StringRef name, Role role, RankedTensorType type) {
    return StateOp::create(
        builder, module.getLoc(), builder.getStringAttr(name),
        RoleAttr::get(builder.getContext(), role), TypeAttr::get(type),
        ShardingAttr(), FlatSymbolRefAttr(), ArrayAttr(), StringAttr(),
        RecordAttr(), Attribute(), IntegerAttr(), UnitAttr(), UnitAttr());
  };
  SmallVector<StringRef, 2> moments = kind.getMoments(options);
  for (StateOp param : params)
    for (StringRef moment : moments) {
      StateOp state = declare((param.getSymName() + "/" + moment).str(),
                              Role::Optimizer, param.getGlobalType());
      state.setOfAttr(refTo(param));
      if (param.getSharding())
        state.setShardingAttr(*param.getSharding());
      states.moments[param].push_back(state);
    }
  auto scalar = RankedTensorType::get({}, builder.getF32Type());
  if (kind.needsStep) {
    states.step = declare("optimizer/step", Role::Scalar, scalar);
    states.step.setInitAttr(builder.getF32FloatAttr(0));
  }
  states.lr = declare("optimizer/lr", Role::Scalar, scalar);
  states.lr.setInitAttr(builder.getF32FloatAttr(options.lr));
  return states;
}

/// Rewrites one program.
class StepBuilder {
public:
  StepBuilder(func::FuncOp func, const OptimizerKind &kind,
              const InsertOptimizerOptions &options)
      : func(func), kind(kind), options(options),
        module(func->getParentOfType<ModuleOp>()), builder(func.getContext()),
        loc(func.getLoc()) {}

  /// Finds what the program trains.
  LogicalResult collect() {
    StateTable states(module);
    llvm::DenseMap<Operation *, BlockArgument> arguments;
    for (BlockArgument argument : func.getArguments())
      if (StateOp state = states.lookup(func, argument.getArgNumber()))
        arguments[state] = argument;
    Operation *terminator = func.getBody().front().getTerminator();
    for (auto [i, value] : llvm::enumerate(terminator->getOperands())) {
      auto of = func.getResultAttrOfType<FlatSymbolRefAttr>(i, kGradientAttr);
      if (!of) {
        results.push_back({value, func.getResultAttrDict(i)});
        continue;
      }
      StateOp state = states.lookup(of);
      BlockArgument param = state ? arguments.lookup(state) : BlockArgument();
      if (!param)
        return func.emitError("has a gradient of '")
               << of.getValue() << "', which is no argument of it";
      if (!isa<Float32Type, Float64Type, Float16Type, BFloat16Type>(
              state.getGlobalType().getElementType()))
        return state.emitOpError("expects a parameter of f16, bf16, f32 or f64 "
                                 "to train, found ")
               << state.getGlobalType().getElementType()
               << "; freeze it (requires_grad = False)";
      trained.push_back({state, param, value, {}, {}});
    }
    if (trained.empty())
      return func.emitError("expects gradients to train with, found none; at "
                            "least one parameter must require them");
    if (results.empty() || !results.front().attributes.get(kOutputAttr))
      return func.emitError("expects the loss as its first result");
    llvm::stable_sort(trained, [&](const Trained &a, const Trained &b) {
      return states.getIndex(a.state) < states.getIndex(b.state);
    });
    return success();
  }

  SmallVector<StateOp> getTrained() const {
    return llvm::map_to_vector(trained,
                               [](const Trained &each) { return each.state; });
  }

  /// `states` has those of all that the program trains.
  void run(const OptimizerStates &states) {
    for (Trained &each : trained)
      each.moments = states.moments.lookup(each.state);
    step = states.step;
    lr = states.lr;
    addArguments();
    buildMetrics();
    buildUpdates();
    setResults();
  }

private:
  DictionaryAttr bind(StringRef attr, Attribute value) {
    return builder.getDictionaryAttr(builder.getNamedAttr(attr, value));
  }

  /// Behind the other states, in front of the inputs.
  void addArguments() {
    unsigned at = 0;
    while (at < func.getNumArguments() && func.getArgAttr(at, kStateAttr))
      ++at;
    SmallVector<DictionaryAttr> attributes;
    func.getAllArgAttrs(attributes);
    auto add = [&](StateOp state) {
      attributes.insert(attributes.begin() + at,
                        bind(kStateAttr, refTo(state)));
      return func.getBody().front().insertArgument(at++, state.getLocalType(),
                                                   state.getLoc());
    };
    for (Trained &each : trained)
      for (StateOp moment : each.moments)
        each.momentArguments.push_back(add(moment));
    if (step)
      stepArgument = add(step);
    lrArgument = add(lr);
    func.setFunctionType(builder.getFunctionType(
        func.getBody().front().getArgumentTypes(), func.getResultTypes()));
    func.setAllArgAttrs(attributes);
  }

  /// Loss and norm travel together, at the end; each rank has both afterwards.
  void buildMetrics() {
    Value &loss = results.front().value;
    auto scalar = RankedTensorType::get({}, builder.getF32Type());
    if (loss.getType() != scalar) {
      // Where the loss is computed: it is part of forward.
      builder.setInsertionPointAfterValue(loss);
      loss =
          aten::buildAtenOp(builder, loss.getLoc(), "aten._to_copy", {loss},
                            builder.getNamedAttr(
                                "dtype", TypeAttr::get(builder.getF32Type())),
                            scalar)
              ->getResult(0);
    }
    builder.setInsertionPoint(func.getBody().front().getTerminator());
    Value sum = buildSumOfSquares(
        builder, loc,
        llvm::map_to_vector(trained, [](auto &each) { return each.grad; }));
    int64_t ranks = module->getAttrOfType<MeshAttr>(kMeshAttr).getWorldSize();
    if (ranks > 1) {
      GroupAttr group =
          module->getAttrOfType<MeshAttr>(kMeshAttr).getGroup("shard");
      auto mean = [&](Value value) -> Value {
        return AllReduceOp::create(builder, loc, scalar, value, Reduction::Avg,
                                   group, FlatSymbolRefAttr());
      };
      loss = mean(loss);
      sum = mean(sum);
    }
    Value norm = buildNorm(builder, loc, sum, ranks);
    results.insert(
        std::next(results.begin()),
        {norm, bind(kOutputAttr, builder.getStringAttr(kGradNormOutput))});
    if (options.maxGradNorm != std::numeric_limits<double>::infinity())
      clipDivisor = buildClipDivisor(builder, loc, norm, options.maxGradNorm);
  }

  void buildUpdates() {
    Value newStep;
    if (step)
      newStep = aten::buildAtenOp(
                    builder, loc, "aten.add.Scalar", {stepArgument},
                    builder.getNamedAttr("other", builder.getF64FloatAttr(1)),
                    stepArgument.getType())
                    ->getResult(0);
    llvm::MapVector<Type, SmallVector<Trained *>> groups;
    for (Trained &each : trained)
      groups[each.state.getGlobalType().getElementType()].push_back(&each);
    for (auto &[type, members] : groups) {
      UpdateOperands operands;
      operands.moments.resize(members.front()->moments.size());
      operands.step = newStep;
      operands.lr = lrArgument;
      operands.gradScale = clipDivisor;
      for (Trained *each : members) {
        operands.params.push_back(each->param);
        operands.grads.push_back(each->grad);
        for (auto [list, moment] :
             llvm::zip(operands.moments, each->momentArguments))
          list.push_back(moment);
      }
      Operation *update = kind.build(builder, loc, operands, options);
      auto next = update->result_begin();
      for (Trained *each : members)
        results.push_back({*next++, bind(kStateAttr, refTo(each->state))});
      for (size_t i = 0; i < operands.moments.size(); ++i)
        for (Trained *each : members)
          results.push_back(
              {*next++, bind(kStateAttr, refTo(each->moments[i]))});
    }
    if (step)
      results.push_back({newStep, bind(kStateAttr, refTo(step))});
  }

  void setResults() {
    SmallVector<Value> values;
    SmallVector<DictionaryAttr> attributes;
    for (BoundResult &result : results) {
      values.push_back(result.value);
      attributes.push_back(result.attributes);
    }
    func.getBody().front().getTerminator()->setOperands(values);
    func.setFunctionType(builder.getFunctionType(
        func.getArgumentTypes(), ValueRange(values).getTypes()));
    func.setAllResultAttrs(attributes);
  }

  func::FuncOp func;
  const OptimizerKind &kind;
  const InsertOptimizerOptions &options;
  ModuleOp module;
  OpBuilder builder;
  Location loc;

  SmallVector<Trained> trained;
  SmallVector<BoundResult> results;
  StateOp step, lr;
  BlockArgument stepArgument, lrArgument;
  Value clipDivisor;
};

struct InsertOptimizer final
    : fsdp::impl::InsertOptimizerBase<InsertOptimizer> {
  InsertOptimizer() = default;
  explicit InsertOptimizer(InsertOptimizerOptions options)
      : InsertOptimizerBase(std::move(options)) {}

  void runOnOperation() override {
    if (failed(run(getOperation())))
      signalPassFailure();
  }

private:
  LogicalResult run(ModuleOp module) {
    ArrayRef<OptimizerKind> kinds = getOptimizerKinds();
    const auto *kind = llvm::find_if(
        kinds, [&](const OptimizerKind &each) { return each.name == name; });
    if (kind == kinds.end()) {
      auto names = llvm::map_range(
          kinds, [](const OptimizerKind &each) { return each.name; });
      return module.emitError("expected an optimizer out of ")
             << llvm::join(names, ", ") << ", found '" << name.getValue()
             << "'";
    }
    if (!(maxGradNorm > 0))
      return module.emitError("expected a positive norm to clip to, found ")
             << llvm::formatv("{0}", maxGradNorm.getValue()).str();
    if (failed(getDataMesh(module)))
      return failure();
    InsertOptimizerOptions options{name,     lr,       beta1,
                                   beta2,    eps,      weightDecay,
                                   momentum, nesterov, maxGradNorm};
    SmallVector<func::FuncOp> programs = getPrograms(module);
    if (!programs.empty() && llvm::all_of(programs, isInference))
      return success();
    llvm::erase_if(programs, isInference);
    if (programs.empty())
      return module.emitError("expects a program to train, found none");
    if (failed(verifySameGradients(programs)))
      return failure();
    std::vector<StepBuilder> builders;
    for (func::FuncOp program : programs) {
      builders.emplace_back(program, *kind, options);
      if (failed(builders.back().collect()))
        return failure();
    }
    OptimizerStates states =
        declareStates(module, builders.front().getTrained(), *kind, options);
    for (StepBuilder &builder : builders)
      builder.run(states);
    return success();
  }
};

} // namespace
