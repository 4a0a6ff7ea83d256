//===- Updates.cpp - Updates of parameters and their states ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/shard/Updates.h"

#include "passes/analysis/StateAppender.h"
#include "passes/shard/Averages.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace fsdp;

FailureOr<OptimizerStates> fsdp::declareStates(ModuleOp module,
                                               ArrayRef<StateOp> params,
                                               const UpdateSettings &settings,
                                               bool grows) {
  OptimizerStates states;
  StateAppender appender(module);
  ArrayRef<GroupSettings> groups = settings.groups;
  const OptimizerFacts &facts = getFacts(settings.kind);
  KeptStatesDeclarer declarer(module, appender);
  for (StateOp param : params) {
    auto moments = facts.getMoments(groups[getGroup(param)].numbers);
    FailureOr<KeptStates> kept = declarer.declare(
        param, SmallVector<StringRef>(moments.begin(), moments.end()),
        settings.stateDType);
    if (failed(kept))
      return failure();
    states.kept[param] = *kept;
  }
  if (settings.ema)
    for (StateOp param : params)
      states.averages[param] = declarer.declareAverage(
          param, getAverageElement(param, settings.ema));
  Builder builder(module.getContext());
  auto appendNumber = [&](StringRef name, Role role, float value) {
    StateOp state =
        appender.append(module.getLoc(), name, role,
                        RankedTensorType::get({}, builder.getF32Type()));
    state.setValueAttr(builder.getF32FloatAttr(value));
    return state;
  };
  if (facts.countsUpdates || settings.rounding || settings.ema)
    states.step = appendNumber("optimizer/step", Role::Step, 0);
  if (grows)
    states.growth = appendNumber("loss/growth", Role::LossGrowth, 0);
  for (size_t i = 0; i < groups.size(); ++i) {
    double lr = groups[i].lr;
    if (i > 0 && lr == groups[0].lr) {
      states.rates.push_back(states.rates.front());
      continue;
    }
    std::string name = "optimizer/lr";
    if (i > 0)
      name += "/" + std::to_string(i);
    states.rates.push_back(appendNumber(name, Role::LearningRate, lr));
  }
  return states;
}

namespace {

/// One op.
struct Update {
  size_t group;
  SmallVector<Value> params, grads, moments, scales;
  SmallVector<StateOp> states; ///< of parameters, moments, scales
  Value maxima;                ///< of blocks that ranks share; may be null
};

class UpdateBuilder {
public:
  UpdateBuilder(OpBuilder &builder, Location loc,
                const UpdateSettings &settings, const UpdateInputs &inputs)
      : builder(builder), loc(loc), settings(settings), inputs(inputs),
        kind(OptimizerKindAttr::get(builder.getContext(), settings.kind)) {}

  /// What the members of one op have in common: group, types of parameters and
  /// moments, whether ranks share blocks.
  using Key = std::tuple<size_t, Type, Type, unsigned>;
  static Key getKey(Trained &each) {
    const MomentStorage &storage = each.kept.storage;
    return {getGroup(each.state), each.state.getGlobalType().getElementType(),
            storage.element, storage.isShared()};
  }

  Update prepare(size_t group, ArrayRef<Trained *> members) const {
    Update update{.group = group};
    auto add = [&](StateOp state, SmallVector<Value> &operands) {
      operands.push_back(inputs.arguments.lookup(state));
      update.states.push_back(state);
    };
    for (Trained *each : members) {
      update.params.push_back(each->param);
      update.grads.push_back(each->grad);
      update.states.push_back(each->state);
    }
    for (size_t i = 0; i < members.front()->kept.moments.size(); ++i)
      for (Trained *each : members)
        add(each->kept.moments[i], update.moments);
    for (size_t i = 0; i < members.front()->kept.moments.size(); ++i)
      for (Trained *each : members)
        if (i < each->kept.scales.size())
          add(each->kept.scales[i], update.scales);
    return update;
  }

  /// The greatest values of all blocks, of which other ranks have parts.
  void buildMaxima(Update &update) {
    int64_t blocks = 0;
    for (Value scale : update.scales)
      blocks += cast<RankedTensorType>(scale.getType()).getNumElements();
    auto type = RankedTensorType::get({blocks}, builder.getF32Type());
    Value own = BlockMaximaOp::create(
        builder, loc, type, kind, update.params, update.grads, update.moments,
        update.scales, inputs.divisor, getNumbersOf(update));
    // Replicas find the same, so that all ranks can be asked at once.
    update.maxima =
        AllReduceOp::create(builder, loc, type, own, Reduction::Max,
                            inputs.world, FlatSymbolRefAttr(), Purpose::Scale);
  }

  UpdateOp build(const Update &update) {
    IntegerAttr rounding;
    if (cast<RankedTensorType>(update.params[0].getType())
            .getElementType()
            .isBF16())
      rounding = settings.rounding;
    bool needsStep = getFacts(settings.kind).countsUpdates || rounding;
    return UpdateOp::create(
        builder, loc, ValueRange(update.params).getTypes(),
        ValueRange(update.moments).getTypes(),
        ValueRange(update.scales).getTypes(), kind, update.params, update.grads,
        update.moments, update.scales, update.maxima,
        needsStep ? inputs.step : Value(),
        inputs.arguments.lookup(inputs.rates[update.group]), inputs.divisor,
        inputs.foundInf, /*rates=*/ValueRange(), getNumbersOf(update),
        rounding);
  }

private:
  DictionaryAttr getNumbersOf(const Update &update) {
    return getNumbers(builder.getContext(), settings.kind,
                      settings.groups[update.group].numbers);
  }

  OpBuilder &builder;
  const Location loc;
  const UpdateSettings &settings;
  const UpdateInputs &inputs;
  const OptimizerKindAttr kind;
};

} // namespace

SmallVector<std::pair<StateOp, Value>>
fsdp::buildUpdates(OpBuilder &builder, Location loc,
                   const UpdateSettings &settings, ArrayRef<Trained *> trained,
                   const UpdateInputs &inputs) {
  UpdateBuilder updates(builder, loc, settings, inputs);
  llvm::MapVector<UpdateBuilder::Key, SmallVector<Trained *>> groups;
  for (Trained *each : trained)
    groups[UpdateBuilder::getKey(*each)].push_back(each);
  std::vector<Update> prepared;
  for (auto &[key, members] : groups)
    prepared.push_back(updates.prepare(std::get<0>(key), members));
  // In front of all updates, so that one exchange is enough.
  for (auto [each, key] :
       llvm::zip_equal(prepared, llvm::make_first_range(groups)))
    if (std::get<3>(key) && !each.scales.empty())
      updates.buildMaxima(each);
  SmallVector<std::pair<StateOp, Value>> made;
  for (const Update &each : prepared)
    for (auto [value, state] :
         llvm::zip_equal(updates.build(each)->getResults(), each.states))
      made.push_back({state, value});
  return made;
}
