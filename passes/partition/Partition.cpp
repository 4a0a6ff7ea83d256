//===- Partition.cpp - The ranks of an axis compute a step together -------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/Passes.h"
#include "passes/analysis/Decisions.h"
#include "passes/analysis/ForwardSlice.h"
#include "passes/analysis/Marks.h"
#include "passes/analysis/Programs.h"
#include "passes/partition/Localize.h"
#include "passes/partition/PlanParallel.h"
#include "passes/partition/Redistribute.h"

using namespace mlir;
using namespace fsdp;

namespace fsdp {
#define GEN_PASS_DEF_PARTITION
#include "passes/Passes.h.inc"
} // namespace fsdp

namespace {

class Partitioner {
public:
  Partitioner(func::FuncOp func, const StateTable &states, GroupAttr group,
              ParallelAttr told)
      : func(func), states(states), group(group), ranks(group.getSize()),
        told(told), builder(func.getContext()) {}

  LogicalResult run() {
    Block &body = func.getBody().front();
    placeArguments();
    Operation *last = ForwardSlice(func).getLast();
    for (Operation &op :
         llvm::make_early_inc_range(body.without_terminator())) {
      bool isLast = &op == last;
      if (failed(place(op)))
        return failure();
      isBackward |= isLast;
    }
    placeResults();
    for (Operation *op : llvm::reverse(replaced))
      op->erase();
    func.setFunctionType(builder.getFunctionType(
        body.getArgumentTypes(), body.getTerminator()->getOperandTypes()));
    return success();
  }

private:
  void placeArguments() {
    for (BlockArgument argument : func.getArguments()) {
      wholeTypes[argument] = cast<RankedTensorType>(argument.getType());
      StateOp state = states.lookup(func, argument.getArgNumber());
      if (!state || !state.getSplit())
        continue;
      argument.setType(state.getGlobalType());
      set(argument, argument, state.getSplit()->getDim());
      splitParameters.insert(argument);
    }
  }

  /// The tensor that a value of the captured program is.
  RankedTensorType getWholeType(Value value) const {
    auto it = wholeTypes.find(value);
    return it != wholeTypes.end() ? it->second
                                  : cast<RankedTensorType>(value.getType());
  }

  void set(Value captured, Value value, Place place) {
    placed[{captured, place}] = value;
    places[captured] = place;
  }

  /// Where a value of the captured program is as it was computed.
  Place getPlace(Value captured) const {
    auto it = places.find(captured);
    return it == places.end() ? kWholePlace : it->second;
  }

  /// What ranks have of `captured` where it is placed so, for readers at the
  /// builder's place. Each is made once.
  Value get(Value captured, Place to) {
    Place from = getPlace(captured);
    if (to == kAnyPlace)
      to = from;
    if (to == kWholePlace && isBackward && told.getSequence())
      if (Value again = gatherAgain(captured))
        return again;
    auto known = placed.find({captured, to});
    if (known != placed.end())
      return known->second;
    if (from == kWholePlace && to == kWholePlace)
      return captured;
    if (from == kPartialPlace && to == kWholePlace)
      if (Value again = repeatOnWhole(captured))
        return again;
    auto own = placed.find({captured, from});
    PlacedValue value{own == placed.end() ? captured : own->second, from};
    // From another place that it already was brought to, if that is cheaper.
    auto whole = placed.find({captured, kWholePlace});
    if (to >= 0 && whole != placed.end())
      value = {whole->second, kWholePlace};
    value = redistribute(builder, captured.getLoc(), value, to,
                         getWholeType(captured), group);
    placed[{captured, to}] = value.value;
    if (from >= 0 && to == kWholePlace && !isBackward)
      gatheredInForward[value.value] = captured;
    return value.value;
  }

  /// Backward gathers again what forward gathered, and views of it: between
  /// them a rank keeps its part of the sequence alone. Null if forward did not.
  Value gatherAgain(Value captured) {
    auto known = gatheredAgain.find(captured);
    if (known != gatheredAgain.end())
      return known->second;
    Place from = getPlace(captured);
    if (from >= 0 &&
        gatheredInForward.contains(placed.lookup({captured, kWholePlace}))) {
      Value part = placed.at({captured, from});
      Value again =
          ReplayOp::create(builder, captured.getLoc(), part.getType(), part);
      again = redistribute(builder, captured.getLoc(), {again, from},
                           kWholePlace, getWholeType(captured), group)
                  .value;
      gatheredAgain[captured] = again;
      return again;
    }
    auto result = dyn_cast<OpResult>(captured);
    if (!result || from != kWholePlace || !aten::getViewSource(result))
      return {};
    Operation *op = result.getOwner();
    // It may read what was gathered for it, which is no captured value.
    Value source = op->getOperand(0);
    auto gathered = gatheredInForward.find(source);
    Value whole = gatherAgain(
        gathered == gatheredInForward.end() ? source : gathered->second);
    if (!whole || whole.getType() != source.getType())
      return {};
    Operation *again = builder.clone(*op);
    again->setOperand(0, whole);
    for (auto [old, made] :
         llvm::zip_equal(op->getResults(), again->getResults()))
      gatheredAgain.try_emplace(old, made);
    return gatheredAgain.at(captured);
  }

  /// A view of a sum is made again of the whole sum, so that all views of it
  /// are one exchange; null if `captured` is none.
  Value repeatOnWhole(Value captured) {
    Operation *op = captured.getDefiningOp();
    if (!op || op->getNumOperands() != 1 ||
        getPlace(op->getOperand(0)) != kPartialPlace)
      return {};
    Value source = get(op->getOperand(0), kWholePlace);
    if (source.getType() != getWholeType(op->getOperand(0)))
      return {};
    Operation *again = builder.clone(*op);
    again->setOperand(0, source);
    for (auto [old, result] :
         llvm::zip_equal(op->getResults(), again->getResults()))
      placed.try_emplace({old, kWholePlace}, result);
    return placed.at({captured, kWholePlace});
  }

  /// Bytes that have to be sent for `captured` to be placed so; none if that is
  /// not done.
  std::optional<int64_t> getCost(Value captured, Place to) const {
    Place from = getPlace(captured);
    if (placed.contains({captured, to}))
      return 0;
    // A view of a sum that is exchanged already.
    if (Operation *op = captured.getDefiningOp();
        from == kPartialPlace && to == kWholePlace && op &&
        op->getNumOperands() == 1 &&
        placed.contains({op->getOperand(0), kWholePlace}))
      return 0;
    if (to >= 0 && placed.contains({captured, kWholePlace}))
      return 0;
    return getTransferBytes(getWholeType(captured), from, to, ranks);
  }

  WholeOp describe(Operation &op) const {
    return WholeOp::of(
        &op, llvm::map_to_vector(op.getOperands(), [&](Value operand) {
          return getWholeType(operand);
        }));
  }

  //===--------------------------------------------------------------------===//
  // Choosing
  //===--------------------------------------------------------------------===//

  /// Whether something asks for the cut: an operand that is placed so, or the
  /// sequence that a sum is to be scattered along.
  bool isWanted(Operation &op, const WholeOp &whole, const Cut &cut) const {
    for (auto [operand, place] :
         llvm::zip_equal(op.getOperands(), cut.operands)) {
      Place now = getPlace(operand);
      // A sum that was exchanged already is summed up.
      if (now == kPartialPlace && placed.contains({operand, kWholePlace}))
        now = kWholePlace;
      if (place == kAnyPlace ? now != kWholePlace
                             : place != kWholePlace && place == now)
        return true;
    }
    return told.getSequence() && isOfSequence(op, whole, cut);
  }

  /// Whether the cut is one of the sequence, of a sum or of an embedding, with
  /// which a part of the program that works on rows begins.
  bool isOfSequence(Operation &op, const WholeOp &whole, const Cut &cut) const {
    RankedTensorType result = whole.results.front();
    if (!result || result.getRank() < 3 ||
        cut.results.front() != result.getRank() - 2)
      return false;
    if (whole.getName() == "aten.embedding")
      return true;
    return llvm::any_of(op.getOperands(), [&](Value operand) {
      return getPlace(operand) == kPartialPlace;
    });
  }

  /// Bytes that the cut asks to be sent; none if it cannot be.
  std::optional<int64_t> getCost(Operation &op, const Cut &cut) const {
    int64_t bytes = 0;
    llvm::DenseSet<std::pair<Value, Place>> counted;
    for (auto [i, place] : llvm::enumerate(cut.operands)) {
      Value operand = op.getOperand(i);
      // A summand of what is whole is one only of what a product adds to.
      if (place == kPartialPlace && getPlace(operand) == kWholePlace &&
          !(i == 0 && addsToFirst(&op)))
        return std::nullopt;
      std::optional<int64_t> own = getCost(operand, place);
      if (!own)
        return std::nullopt;
      if (counted.insert({operand, place}).second)
        bytes += *own;
      // Parameters are split to be used so, however few bytes they are.
      if (place == kWholePlace && splitParameters.contains(operand))
        bytes += kNever;
    }
    return bytes;
  }

  /// More bytes than any step exchanges.
  static constexpr int64_t kNever = int64_t(1) << 48;

  Cut choose(Operation &op, const WholeOp &whole) const {
    Cut best = cuts::whole(whole);
    std::optional<int64_t> least = getCost(op, best);
    bool isBestWhole = true;
    if (!aten::lookupSchema(&op))
      return best;
    for (const Cut &cut : findCuts(whole, ranks)) {
      if (!isWanted(op, whole, cut))
        continue;
      std::optional<int64_t> cost = getCost(op, cut);
      // Parts are preferred to the whole at the same cost: less is computed.
      if (cost &&
          (!least || *cost < *least || (*cost == *least && isBestWhole))) {
        best = cut;
        least = cost;
        isBestWhole = false;
      }
    }
    return best;
  }

  //===--------------------------------------------------------------------===//
  // Rewriting
  //===--------------------------------------------------------------------===//

  LogicalResult place(Operation &op) {
    WholeOp whole = describe(op);
    if (failed(verifyHeads(op, whole)))
      return failure();
    Cut cut = choose(op, whole);
    remark(op, whole, cut);
    builder.setInsertionPoint(&op);
    SmallVector<Value> operands;
    for (auto [operand, place] :
         llvm::zip_equal(op.getOperands(), cut.operands))
      operands.push_back(get(operand, place));
    bool isAsCaptured =
        llvm::all_of(llvm::zip_equal(operands, whole.operands), [](auto pair) {
          return std::get<0>(pair).getType() == std::get<1>(pair);
        });
    auto isView = [](OpResult result) {
      return bool(aten::getViewSource(result));
    };
    if (cut == cuts::whole(whole) &&
        (isAsCaptured || llvm::none_of(op.getResults(), isView))) {
      op.setOperands(operands);
      return success();
    }
    return replace(op, whole, cut, operands);
  }

  LogicalResult replace(Operation &op, const WholeOp &whole, const Cut &cut,
                        SmallVector<Value> &operands) {
    auto typesOf = [&] {
      return llvm::map_to_vector(operands, [](Value operand) {
        return cast<RankedTensorType>(operand.getType());
      });
    };
    FailureOr<SmallVector<Type>> types =
        localizeResults(whole, cut, ranks, typesOf());
    if (failed(types)) {
      operands.front() = copyInOrder(builder, op.getLoc(), operands.front());
      types = localizeResults(whole, cut, ranks, typesOf());
    }
    if (failed(types))
      return op.emitOpError("cannot be computed in parts by ")
             << ranks << " ranks of '" << group.getName().getValue() << "'";
    OperationState state(op.getLoc(), op.getName());
    state.addOperands(operands);
    state.addTypes(*types);
    state.propertiesAttr = localizeStatics(whole, cut, ranks);
    Operation *part = builder.create(state);
    for (NamedAttribute attr : op.getDiscardableAttrs())
      part->setDiscardableAttr(attr.getName(), attr.getValue());
    markPart(part, &op, toAttrs(cut.results));
    for (auto [captured, result, place] :
         llvm::zip_equal(op.getResults(), part->getResults(), cut.results))
      set(captured, result, place);
    // Views and casts of a parameter are the parameter still.
    if (op.getNumOperands() == 1 && splitParameters.contains(op.getOperand(0)))
      for (OpResult result : op.getResults())
        splitParameters.insert(result);
    replaced.push_back(&op);
    return success();
  }

  SmallVector<PlacedAttr> toAttrs(ArrayRef<Place> results) const {
    return llvm::map_to_vector(results, [&](Place place) {
      PlacedKind kind = place == kWholePlace     ? PlacedKind::Whole
                        : place == kPartialPlace ? PlacedKind::Partial
                                                 : PlacedKind::Shard;
      return PlacedAttr::get(group.getContext(), kind,
                             std::max<Place>(place, 0), group);
    });
  }

  /// Gradients of split parameters leave as they are split, all else whole.
  void placeResults() {
    Operation *terminator = func.getBody().front().getTerminator();
    builder.setInsertionPoint(terminator);
    for (OpOperand &operand : terminator->getOpOperands()) {
      StateOp state = states.lookup(func.getResultAttrOfType<FlatSymbolRefAttr>(
          operand.getOperandNumber(), kGradientAttr));
      Place to = state && state.getSplit() ? Place(state.getSplit()->getDim())
                                           : kWholePlace;
      Value captured = operand.get();
      Value value = get(captured, to);
      if (auto type = cast<RankedTensorType>(value.getType());
          to != kWholePlace || getPlace(captured) != kWholePlace)
        if (!aten::isContiguous(type) &&
            aten::isContiguous(getWholeType(captured)))
          value = copyInOrder(builder, captured.getLoc(), value);
      operand.set(value);
    }
  }

  //===--------------------------------------------------------------------===//
  // What people are told
  //===--------------------------------------------------------------------===//

  /// Features that a plan of the user's splits belong to heads, or the like:
  /// whole ones.
  LogicalResult verifyHeads(Operation &op, const WholeOp &whole) const {
    if (told.getAutomatic() || told.getSequence() ||
        whole.getName() != "aten.view")
      return success();
    Place place = getPlace(op.getOperand(0));
    RankedTensorType from = whole.operands.front(), to = whole.results.front();
    if (place < 0 || place != from.getRank() - 1 || to.getRank() <= place)
      return success();
    int64_t heads = to.getDimSize(place);
    bool isSplit =
        to.getRank() > from.getRank() &&
        from.getShape().take_front(place) == to.getShape().take_front(place);
    if (!isSplit || heads % ranks == 0)
      return success();
    InFlightDiagnostic diagnostic =
        op.emitOpError("has ")
        << heads << " heads, or groups of features, of what is split over "
        << ranks << " ranks of '" << group.getName().getValue()
        << "', which do not divide them; ";
    std::string others = listDivisors(heads, heads);
    diagnostic << (others.empty() ? "leave the module out of the plan"
                                  : others + " would work");
    return diagnostic;
  }

  void remark(Operation &op, const WholeOp &whole, const Cut &cut) const {
    if (!wantsRemarks(&op) || cut != cuts::whole(whole))
      return;
    std::optional<int64_t> bytes = getCost(op, cut);
    if (!bytes || *bytes == 0)
      return;
    // Sums are exchanged anyway, and along the sequence gathers are meant.
    bool isKnown = hasRule(whole.getName());
    bool gathers = llvm::any_of(op.getOperands(), [&](Value operand) {
      return getPlace(operand) >= 0;
    });
    if (isKnown && (!gathers || told.getSequence()))
      return;
    std::string text = whole.getName().str() +
                       " is computed whole by every rank, since it has no rule "
                       "for parts";
    if (isKnown)
      text += " along the dims of its operands";
    text +=
        "; " + std::to_string(*bytes % kNever) + " bytes are exchanged for it";
    remark::missed(op.getLoc(), nameDecision("parallel", "ComputedWhole", func))
        << text;
  }

  func::FuncOp func;
  const StateTable &states;
  GroupAttr group;
  int64_t ranks;
  ParallelAttr told;
  OpBuilder builder;
  llvm::DenseMap<Value, RankedTensorType> wholeTypes; ///< of arguments
  llvm::DenseMap<Value, Place> places;
  llvm::DenseMap<std::pair<Value, Place>, Value> placed;
  llvm::DenseSet<Value> splitParameters; ///< and views of them
  SmallVector<Operation *> replaced;
  bool isBackward = false;
  /// By what was gathered the captured value that it is.
  llvm::DenseMap<Value, Value> gatheredInForward;
  llvm::DenseMap<Value, Value> gatheredAgain;
};

struct Partition final : fsdp::impl::PartitionBase<Partition> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto told = getSetting<ParallelAttr>(module);
    if (told.getCp() > 1) {
      module.emitError("expected 'cp' to be 1, found ")
          << told.getCp() << ": context parallelism is not supported yet";
      return signalPassFailure();
    }
    if (told.getTp() == 1)
      return;
    if (failed(planParallel(module, told)))
      return signalPassFailure();
    GroupAttr group = getTensorGroup(told);
    StateTable states(module);
    for (func::FuncOp func : getPrograms(module))
      if (func->hasAttr(kCapturedAttr) &&
          failed(Partitioner(func, states, group, told).run()))
        return signalPassFailure();
  }
};

} // namespace
