//===- InsertOptimizer.cpp - From gradients to new parameters ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/Passes.h"
#include "passes/analysis/Entries.h"
#include "passes/analysis/LossWeight.h"
#include "passes/analysis/Mesh.h"
#include "passes/analysis/Outputs.h"
#include "passes/analysis/Programs.h"
#include "passes/analysis/States.h"
#include "passes/analysis/TensorBuilders.h"
#include "passes/shard/Averages.h"
#include "passes/shard/GradientNorm.h"
#include "passes/shard/LossScale.h"
#include "passes/shard/Metrics.h"
#include "passes/shard/NonFinite.h"
#include "passes/shard/ParameterNorms.h"
#include "passes/shard/Updates.h"
#include "support/ExactSum.h"

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

/// What is done to the gradients, for all programs of a module.
struct StepOptions {
  UpdateSettings updates;
  NormOrder normOrder;
  FloatAttr maxGradNorm; ///< null: not clipped
  bool skipsNonFinite;
  LossScaling scaling;
  bool inBackward;    ///< where nothing waits for all gradients
  int64_t grains = 0; ///< above 0: no number depends on how ranks are cut
  ReportedNormsAttr norms = {}; ///< by parameter or module; null: none
};

/// Rewrites one program.
class StepBuilder {
public:
  StepBuilder(func::FuncOp func, const StepOptions &options)
      : func(func), options(options), module(func->getParentOfType<ModuleOp>()),
        builder(func.getContext()), loc(func.getLoc()) {}

  /// Finds what the program trains.
  LogicalResult collect() {
    StateTable states(module);
    llvm::DenseMap<Operation *, BlockArgument> arguments;
    for (BlockArgument argument : func.getArguments())
      if (StateOp state = states.lookup(func, argument.getArgNumber())) {
        arguments[state] = argument;
        if (state.getRole() == Role::LossScale) {
          scale = argument;
          scaleState = state;
        }
      }
    Operation *terminator = func.getBody().front().getTerminator();
    std::optional<unsigned> weighedBy = findLossWeight(func);
    for (auto [i, value] : llvm::enumerate(terminator->getOperands())) {
      auto of = func.getResultAttrOfType<FlatSymbolRefAttr>(i, kGradientAttr);
      if (!of) {
        if (i == weighedBy)
          weight = value;
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
      trained.push_back({{state, param, value}, {}});
    }
    if (trained.empty())
      return func.emitError("expects gradients to train with, found none; at "
                            "least one parameter must require them");
    if (results.empty() || !results.front().attributes.get(kOutputAttr))
      return func.emitError("expects the loss as its first result");
    llvm::stable_sort(trained, [&](const Trained &a, const Trained &b) {
      return states.getIndex(a.state) < states.getIndex(b.state);
    });
    if (options.norms)
      return ParameterNorms::verify(states, trained);
    return success();
  }

  SmallVector<StateOp> getTrained() const {
    return llvm::map_to_vector(trained,
                               [](const Trained &each) { return each.state; });
  }

  /// `states` has those of all that the program trains.
  void run(const OptimizerStates &states) {
    for (Trained &each : trained) {
      each.kept = states.kept.lookup(each.state);
      each.average = states.averages.lookup(each.state);
    }
    step = states.step;
    rates = states.rates;
    growth = states.growth;
    addArguments();
    if (options.norms)
      addReport();
    if (isEarly())
      buildEarlyUpdates();
    buildMetrics();
    if (!isEarly())
      buildUpdates(getPointers(trained));
    if (report)
      finishReport();
    buildCounters();
    setResults();
  }

private:
  DictionaryAttr bind(StringRef attr, Attribute value) {
    return builder.getDictionaryAttr(builder.getNamedAttr(attr, value));
  }

  void addArguments() {
    SmallVector<StateOp> states;
    // The base's rate may be none of this program's parameters'.
    llvm::DenseSet<Operation *> used;
    for (Trained &each : trained) {
      llvm::append_range(states, each.kept.moments);
      llvm::append_range(states, each.kept.scales);
      if (each.average)
        states.push_back(each.average);
      used.insert(rates[getGroup(each.state)]);
    }
    if (step)
      states.push_back(step);
    if (growth)
      states.push_back(growth);
    for (StateOp rate : rates)
      if (used.erase(rate))
        states.push_back(rate);
    for (auto [state, argument] :
         llvm::zip_equal(states, addStateArguments(func, states)))
      arguments[state] = argument;
  }

  template <typename Range>
  static SmallVector<Trained *> getPointers(Range &range) {
    return llvm::map_to_vector(range, [](Trained &each) { return &each; });
  }

  /// Whether no update needs a number that all gradients have a part in.
  bool isEarly() const {
    return options.inBackward && !options.maxGradNorm &&
           !options.skipsNonFinite && !scale && !weight;
  }

  /// Each bucket as soon as its gradients are there, whose norms are taken
  /// before their memory is free.
  void buildEarlyUpdates() {
    auto left = module->getAttrOfType<FloatAttr>(kOptimizerDivisorAttr);
    SmallVector<UpdatedParameter> params(trained.begin(), trained.end());
    // Its transfers: a reduction, and where the host updates the way there.
    auto offload = getSetting<OffloadAttr>(module);
    auto mesh = module->getAttrOfType<MeshAttr>(kMeshAttr);
    size_t lag = size_t(getDataGroup(mesh).getSize() > 1) +
                 size_t(offload.getParams() || offload.getOptimizer());
    for (const UpdatePlace &place : getUpdatePlaces(func, params, lag)) {
      builder.setInsertionPoint(place.before);
      if (!divisor && left)
        divisor = buildDivisor(builder, loc, {}, left.getValueAsDouble());
      auto members = llvm::map_to_vector(
          place.members, [&](unsigned i) { return &trained[i]; });
      if (sumsSquares())
        addSquares(members);
      else
        buildNorms(builder, loc, options.normOrder,
                   llvm::map_to_vector(
                       members, [](Trained *each) { return each->grad; }),
                   norms);
      buildUpdates(members);
    }
  }

  void addReport() {
    auto mesh = module->getAttrOfType<MeshAttr>(kMeshAttr);
    StateTable states(module);
    report.emplace(
        builder, loc, options.norms,
        [&](StateOp state) { return getHolders(state, mesh, states); },
        getPointers(trained));
  }

  /// Whether the report reads the norms that clipping makes.
  bool sharesNorms() const {
    return report && options.norms.getGradients() &&
           options.normOrder == NormOrder::Two && !sumsSquares();
  }

  void finishReport() {
    auto mesh = module->getAttrOfType<MeshAttr>(kMeshAttr);
    auto left = module->getAttrOfType<FloatAttr>(kOptimizerDivisorAttr);
    SmallVector<Value> factors;
    for (Value factor : {Value(scale), weight})
      if (factor)
        factors.push_back(factor);
    for (const ParameterNorms::Result &each : report->finish(
             mesh.getWorldGroup(), getShardSize(mesh) * getTensorSize(mesh),
             left ? left.getValueAsDouble() : 1, factors))
      results.push_back({each.norms, bind(kNormsOfAttr, each.names)});
  }

  /// Whether the norm must not depend on how gradients are cut.
  bool sumsSquares() const {
    return options.grains != 0 && options.normOrder == NormOrder::Two;
  }

  /// To the sums over what ranks hold parts of, and over what each has whole.
  void addSquares(ArrayRef<Trained *> members) {
    SmallVector<Value> gradients[2];
    for (Trained *each : members)
      gradients[each->state.getSharding() ? 0 : 1].push_back(each->grad);
    for (auto [sum, part] : llvm::zip_equal(squares, gradients)) {
      if (part.empty())
        continue;
      auto type = RankedTensorType::get({int64_t(std::tuple_size_v<SumDigits>)},
                                        builder.getI64Type());
      Value digits = SquareSumOp::create(builder, loc, type, part);
      sum = !sum ? digits
                 : aten::buildAtenOp(builder, loc, "aten.add.Tensor",
                                     {sum, digits}, {}, type)
                       ->getResult(0);
    }
  }

  /// Of all gradients: the ranks of one replica have parts of what is sharded.
  Value buildExactNorm(MeshAttr mesh) {
    if (!isEarly())
      addSquares(getPointers(trained));
    if (GroupAttr group = mesh.getGroup(kShardAxis);
        squares[0] && group.getSize() > 1)
      squares[0] = AllReduceOp::create(builder, loc, squares[0].getType(),
                                       squares[0], Reduction::Sum, group,
                                       FlatSymbolRefAttr(), Purpose::Metric);
    SmallVector<Value> sums;
    for (Value sum : squares)
      if (sum)
        sums.push_back(sum);
    return SquareRootOp::create(
        builder, loc, RankedTensorType::get({}, builder.getF32Type()), sums);
  }

  HeldGradients getHeldGradients(MeshAttr mesh) const {
    StateTable states(module);
    HeldGradients gradients;
    for (const Trained &each : trained)
      gradients[getHolders(each.state, mesh, states)].push_back(each.grad);
    return gradients;
  }

  /// Loss and norm travel together, at the end; each rank has both afterwards.
  void buildMetrics() {
    Value &loss = results.front().value;
    loss = widenMetric(builder, loss);
    builder.setInsertionPoint(func.getBody().front().getTerminator());
    auto mesh = module->getAttrOfType<MeshAttr>(kMeshAttr);
    if (options.grains != 0)
      loss = averageGrains(builder, loss, mesh, options.grains);
    if (sharesNorms() && !isEarly())
      buildNorms(builder, loc, NormOrder::Two,
                 llvm::map_to_vector(
                     trained, [](const Trained &each) { return each.grad; }),
                 norms);
    Value norm = sumsSquares() ? buildExactNorm(mesh) : reduceNorm(mesh, loss);
    finishNorm(loss, norm);
  }

  /// From what each rank knows. With grains the loss has been reduced.
  Value reduceNorm(MeshAttr mesh, Value &loss) {
    NormOrder order = options.normOrder;
    HeldGradients gradients = getHeldGradients(mesh);
    Value term = buildNormTerm(builder, loc, order, gradients, norms);
    // Over the ranks along 'tp' as well, which have one loss: all ranks then
    // have the same bits, and decide alike by them.
    if (mesh.getWorldSize() > 1) {
      auto reduce = [&](Value value, Reduction reduction) -> Value {
        return AllReduceOp::create(builder, loc, value.getType(), value,
                                   reduction, mesh.getWorldGroup(),
                                   FlatSymbolRefAttr(), Purpose::Metric);
      };
      if (options.grains == 0)
        loss = reduce(loss, Reduction::Avg);
      term = reduce(term, getReduction(order));
    }
    return buildNorm(builder, loc, order, term,
                     getShardSize(mesh) * getTensorSize(mesh));
  }

  /// Reports it, and makes of it what decides about the updates.
  void finishNorm(Value loss, Value norm) {
    auto left = module->getAttrOfType<FloatAttr>(kOptimizerDivisorAttr);
    if (left)
      norm = divideNorm(builder, loc, norm, left.getValueAsDouble());
    for (Value factor : {Value(scale), weight})
      if (factor)
        norm = unscaleNorm(builder, loc, norm, factor);
    results.insert(
        std::next(results.begin()),
        {norm, bind(kOutputAttr, builder.getStringAttr(kGradNormOutput))});
    if (isEarly())
      return;
    if (options.skipsNonFinite)
      foundInf = buildFoundInf(builder, loc, loss, norm);
    if (options.maxGradNorm)
      divisor = buildClipDivisor(builder, loc, norm,
                                 options.maxGradNorm.getValueAsDouble());
    for (Value factor : {Value(scale), weight})
      if (factor)
        divisor = joinScale(builder, loc, divisor, factor);
    if (left)
      divisor = buildDivisor(builder, loc, divisor, left.getValueAsDouble());
  }

  void buildUpdates(ArrayRef<Trained *> updated) {
    if (step && !newStep)
      newStep = countUpdate(builder, loc, arguments.lookup(step), foundInf);
    if (report)
      report->note(updated, sharesNorms() ? norms : GradientNorms());
    // In front, so that one kernel can update and average.
    if (options.updates.ema && !averages)
      averages.emplace(builder, loc, options.updates.ema, newStep, foundInf);
    for (Trained *each : updated)
      if (averages)
        averages->prepare(arguments.lookup(each->average));
    auto mesh = module->getAttrOfType<MeshAttr>(kMeshAttr);
    UpdateInputs inputs{arguments, rates,    newStep,
                        divisor,   foundInf, mesh.getWorldGroup()};
    auto made =
        fsdp::buildUpdates(builder, loc, options.updates, updated, inputs);
    for (auto [state, value] : made)
      results.push_back({value, bind(kStateAttr, refTo(state))});
    if (report)
      report->noteUpdates(made);
    if (options.updates.ema)
      buildAverages(updated, made);
  }

  void buildAverages(ArrayRef<Trained *> updated,
                     ArrayRef<std::pair<StateOp, Value>> made) {
    llvm::DenseMap<Operation *, Value> values;
    for (auto [state, value] : made)
      values[state] = value;
    for (Trained *each : updated)
      results.push_back({averages->build(arguments.lookup(each->average),
                                         values.lookup(each->state)),
                         bind(kStateAttr, refTo(each->average))});
  }

  void buildCounters() {
    if (step)
      results.push_back({newStep, bind(kStateAttr, refTo(step))});
    if (growth)
      updateScale();
  }

  /// The metric says what this step's loss was multiplied by.
  void updateScale() {
    Value used = buildContiguousCopy(builder, loc, scale);
    results.push_back(
        {used, bind(kMetricAttr, builder.getStringAttr(kLossScaleMetric))});
    auto [newScale, newGrowth] =
        buildScaleUpdate(builder, loc, scale, arguments.lookup(growth),
                         foundInf, options.scaling);
    results.push_back({newScale, bind(kStateAttr, refTo(scaleState))});
    results.push_back({newGrowth, bind(kStateAttr, refTo(growth))});
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
  const StepOptions &options;
  ModuleOp module;
  OpBuilder builder;
  Location loc;

  SmallVector<Trained> trained;
  SmallVector<BoundResult> results;
  StateOp step, growth, scaleState;
  BlockArgument scale;        // null: not scaled
  Value weight;               // null: the loss is no mean over labels
  SmallVector<StateOp> rates; // by group
  llvm::DenseMap<Operation *, BlockArgument> arguments; // of the optimizer
  Value divisor, foundInf;                // null: neither divided nor left out
  Value newStep;                          // once there is an update
  std::optional<AverageBuilder> averages; // once there is an update
  Value squares[2];    // exact sums: over shards, over whole gradients
  GradientNorms norms; // of what is updated in backward, or reported
  std::optional<ParameterNorms> report; // by parameter or module
};

struct InsertOptimizer final
    : fsdp::impl::InsertOptimizerBase<InsertOptimizer> {
  void runOnOperation() override {
    if (failed(run(getOperation())))
      signalPassFailure();
  }

private:
  LogicalResult run(ModuleOp module) {
    if (failed(getDataMesh(module)))
      return failure();
    auto optimizer = getSetting<OptimizerAttr>(module);
    auto policy = findSetting<OnNonFiniteAttr>(module);
    bool skipsNonFinite = policy && policy.getValue() == OnNonFinite::Skip;
    FailureOr<LossScaling> scaling = getLossScaling(module, skipsNonFinite);
    if (failed(scaling))
      return failure();
    StepOptions options{
        {optimizer.getKind(), getGroupSettings(optimizer),
         optimizer.getStateDtype(), IntegerAttr(),
         findSetting<EmaAttr>(module)},
        *getNormOrder(optimizer.getNormOrder().getValueAsDouble()),
        optimizer.getMaxGradNorm(),
        skipsNonFinite,
        *scaling,
        optimizer.getInBackward(),
        getSetting<StepAttr>(module).getGrains(),
        findSetting<ReportedNormsAttr>(module)};
    IntegerAttr &rounding = options.updates.rounding;
    if (optimizer.getStochasticRounding())
      rounding = Builder(&getContext()).getI64IntegerAttr(getSeed(module));
    if (failed(verifyGroups(module, options.updates.groups.size())))
      return failure();
    SmallVector<func::FuncOp> programs = getPrograms(module);
    if (!programs.empty() && llvm::all_of(programs, isInference))
      return success();
    llvm::erase_if(programs, [](func::FuncOp program) {
      return isInference(program) || !endsStep(program);
    });
    if (programs.empty())
      return module.emitError("expects a program to train, found none");
    if (failed(verifySameGradients(programs)))
      return failure();
    std::vector<StepBuilder> builders;
    for (func::FuncOp program : programs) {
      builders.emplace_back(program, options);
      if (failed(builders.back().collect()))
        return failure();
    }
    SmallVector<StateOp> trained = builders.front().getTrained();
    if (rounding && llvm::none_of(trained, [](StateOp param) {
          return param.getGlobalType().getElementType().isBF16();
        }))
      return module.emitError(
          "expected parameters in bf16 for optimizer.stochastic_rounding, "
          "found "
          "none to train; leave it out, or export the model in bfloat16");
    FailureOr<OptimizerStates> states = declareStates(
        module, trained, options.updates, options.scaling.interval != 0);
    if (failed(states))
      return failure();
    for (StepBuilder &builder : builders)
      builder.run(*states);
    module->setAttr(OptimizerAttr::name, optimizer);
    return success();
  }
};

} // namespace
