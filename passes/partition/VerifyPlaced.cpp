//===- VerifyPlaced.cpp - The contract of a partitioned program -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/Passes.h"
#include "passes/analysis/Marks.h"
#include "passes/analysis/Mesh.h"
#include "passes/analysis/Programs.h"
#include "passes/analysis/States.h"
#include "passes/partition/Axis.h"
#include "passes/partition/Localize.h"

#include "ir/aten/Matchers.h"
#include "ir/aten/OpModel.h"

using namespace mlir;
using namespace fsdp;

namespace fsdp {
#define GEN_PASS_DEF_VERIFYPLACED
#include "passes/Passes.h.inc"
} // namespace fsdp

namespace {

std::string describe(Place place) {
  if (place == kPartialPlace)
    return "a summand";
  if (place == kGreatestPlace)
    return "the greatest values of its part";
  if (place == kWholePlace)
    return "the whole";
  std::string text = "a part along dim " + std::to_string(place.dim);
  return place.blocks == 1
             ? text
             : text + " in " + std::to_string(place.blocks) + " blocks";
}

class PlacementVerifier {
public:
  PlacementVerifier(func::FuncOp func, const StateTable &states,
                    const Axis &axis)
      : func(func), states(states), axis(axis), group(axis.group),
        ranks(group.getSize()) {}

  LogicalResult verify() {
    if (!axis.isContext())
      for (BlockArgument argument : func.getArguments()) {
        StateOp state = states.lookup(func, argument.getArgNumber());
        if (state && state.getSplit())
          set(argument, toPlace(*state.getSplit()), state.getWholeType());
      }
    for (Operation &op : func.getBody().front().without_terminator())
      if (failed(isMove(op) ? verifyMove(op) : verifyOp(op)))
        return failure();
    return verifyResults();
  }

private:
  Place getPlace(Value value) const {
    auto it = places.find(value);
    return it == places.end() ? kWholePlace : it->second;
  }

  RankedTensorType getWholeType(Value value) const {
    auto it = wholeTypes.find(value);
    return it == wholeTypes.end() ? dyn_cast<RankedTensorType>(value.getType())
                                  : it->second;
  }

  void set(Value value, Place place, RankedTensorType whole) {
    places.insert_or_assign(value, place);
    wholeTypes[value] = whole;
  }

  //===--------------------------------------------------------------------===//
  // Exchanges
  //===--------------------------------------------------------------------===//

  /// Whether it brings what ranks of this axis have elsewhere.
  bool isMove(Operation &op) const {
    if (auto summand = dyn_cast<SummandOp>(op))
      return summand.getGroup() == group;
    if (auto shard = dyn_cast<ShardOp>(op))
      return shard.getGroup() == group;
    auto collective = dyn_cast<CollectiveOpInterface>(op);
    return collective && collective.getGroup() == group;
  }

  /// How an exchange cuts; null if it does not, or as goes without saying.
  static PartsAttr getParts(Operation &op) {
    return op.getAttrOfType<PartsAttr>("parts");
  }

  /// What an exchange takes and leaves.
  static std::pair<Place, Place> getMove(Operation &op) {
    if (auto reduce = dyn_cast<AllReduceOp>(op))
      return {reduce.getReduction() == Reduction::Max ? kGreatestPlace
                                                      : kPartialPlace,
              kWholePlace};
    if (isa<SummandOp>(op))
      return {kWholePlace, kPartialPlace};
    if (auto gather = dyn_cast<AllGatherOp>(op))
      return {Axis::toPlace(gather.getDim(), gather.getPartsAttr()),
              kWholePlace};
    if (auto scatter = dyn_cast<ReduceScatterOp>(op))
      return {kPartialPlace,
              Axis::toPlace(scatter.getDim(), scatter.getPartsAttr())};
    auto shard = cast<ShardOp>(op);
    return {kWholePlace, Axis::toPlace(shard.getDim(), shard.getPartsAttr())};
  }

  LogicalResult verifyMove(Operation &op) {
    auto [from, to] = getMove(op);
    Value operand = op.getOperand(0), result = op.getResult(0);
    if (getPlace(operand) != from)
      return op.emitOpError("expects ranks of '")
             << group.getName().getValue() << "' to have " << describe(from)
             << " of its operand, found " << describe(getPlace(operand));
    if (auto reduction = dyn_cast<ReductionOpInterface>(op);
        reduction && from == kPartialPlace &&
        (reduction.getReduction() != Reduction::Sum ||
         reduction.getScale() != double(ranks)))
      return op.emitOpError("expects a sum without divisors of what ranks of '")
             << group.getName().getValue() << "' compute together";
    RankedTensorType whole = getWholeType(operand);
    if (Place cut = from.isPart() ? from : to; cut.isPart()) {
      if (cut.dim >= whole.getRank() || whole.getDimSize(cut.dim) % ranks != 0)
        return op.emitOpError("expects a dim that ")
               << ranks << " ranks divide, found dim " << cut.dim << " of "
               << whole;
      if (PartsAttr expected = axis.getParts(cut.blocks);
          expected != getParts(op))
        return op.emitOpError("expects parts of ")
               << expected << ", found " << getParts(op);
    }
    set(result, to, whole);
    return success();
  }

  //===--------------------------------------------------------------------===//
  // Operators
  //===--------------------------------------------------------------------===//

  LogicalResult verifyOp(Operation &op) {
    bool isMarked = op.hasAttr(kPlacedAttr);
    bool readsParts = llvm::any_of(op.getOperands(), [&](Value operand) {
      return getPlace(operand) != kWholePlace;
    });
    if (!isMarked && !readsParts)
      return success();
    if (auto replay = dyn_cast<ReplayOp>(op)) {
      set(replay.getResult(), getPlace(replay.getInput()),
          getWholeType(replay.getInput()));
      return success();
    }
    if (!aten::lookupSchema(&op) && !isMarked)
      return op.emitOpError("reads what ranks of '")
             << group.getName().getValue()
             << "' have parts of; expected an exchange in front of it";
    return isMarked ? verifyPart(op) : verifyReordered(op);
  }

  /// Around exchanges, dims are brought into their order in memory.
  LogicalResult verifyReordered(Operation &op) {
    std::optional<SmallVector<int64_t>> order = aten::matchPermute(&op);
    Place place = getPlace(op.getOperand(0));
    if (!order && !aten::isClone(&op))
      return op.emitOpError("reads ")
             << describe(place)
             << " and does not say what ranks have of its result; expected '"
             << kPlacedAttr << "'";
    if (order && place.isPart())
      place.dim = llvm::find(*order, place.dim) - order->begin();
    set(op.getResult(0), place, resize(op.getResult(0).getType(), place));
    return success();
  }

  /// The tensor of which `type` is what a rank has.
  RankedTensorType resize(Type type, Place place) const {
    auto part = cast<RankedTensorType>(type);
    SmallVector<int64_t> shape(part.getShape());
    if (place.isPart())
      shape[place.dim] *= ranks;
    return RankedTensorType::get(shape, part.getElementType());
  }

  LogicalResult verifyPart(Operation &op) {
    SmallVector<RankedTensorType> operands;
    for (Value operand : op.getOperands())
      operands.push_back(getWholeType(operand));
    WholeOp whole = WholeOp::of(&op, operands);
    SmallVector<Place> found;
    for (OpResult result : op.getResults()) {
      PlacedAttr placed = getPlaced(result, group);
      found.push_back(Axis::toPlace(placed));
      if (placed != axis.toAttr(found.back()))
        return op.emitOpError("expects a result placed as ")
               << axis.toAttr(found.back()) << ", found " << placed;
    }
    SmallVector<Place> operandPlaces = llvm::map_to_vector(
        op.getOperands(), [&](Value operand) { return getPlace(operand); });
    std::vector<Cut> cuts =
        findCuts(whole, axis.getPieces(whole, operandPlaces));
    cuts.push_back(cuts::whole(whole));
    for (const Cut &cut : cuts) {
      if (cut.results != ArrayRef<Place>(found) || !takes(op, cut))
        continue;
      if (isLookupOfRows(&op, cut) && op.getAttr(kRowsAttr) != axis.toAttr(0))
        return op.emitOpError("expects ")
               << kRowsAttr << " = " << axis.toAttr(0)
               << ", which says whose rows its matrix has";
      if (Attribute expected = isRing(whole, cut)
                                   ? axis.toAttr(getTokensDim(whole))
                                   : PlacedAttr();
          op.getAttr(kRingAttr) != expected)
        return expected ? op.emitOpError("expects ")
                              << kRingAttr << " = " << expected
                              << ", since ranks have parts of its keys"
                        : op.emitOpError("expects no ")
                              << kRingAttr
                              << ", since ranks have its keys whole";
      bool hasQueries = axis.isContext() && !isRing(whole, cut) &&
                        ((findWindow(whole) && found.front() == Place(1)) ||
                         findDocumentsPlace(whole) == found.front());
      if (Attribute expected =
              hasQueries ? axis.toAttr(found.front()) : PlacedAttr();
          expected && op.getAttr(kQueriesAttr) != expected)
        return op.emitOpError("expects ")
               << kQueriesAttr << " = " << expected
               << ", since ranks have parts of its queries";
      if (failed(verifyStatics(op, whole, cut)) ||
          failed(verifyTypes(op, whole, cut)))
        return failure();
      for (auto [result, place, type] :
           llvm::zip_equal(op.getResults(), found, whole.results))
        if (type)
          set(result, place, type);
      return success();
    }
    InFlightDiagnostic diagnostic =
        op.emitOpError("has no rule by which ranks get ");
    llvm::interleaveComma(found, diagnostic,
                          [&](Place place) { diagnostic << describe(place); });
    diagnostic << " of its results from ";
    llvm::interleaveComma(op.getOperands(), diagnostic, [&](Value operand) {
      diagnostic << describe(getPlace(operand));
    });
    return diagnostic << " of its operands";
  }

  bool takes(Operation &op, const Cut &cut) const {
    return llvm::all_of(
        llvm::zip_equal(op.getOperands(), cut.operands), [&](auto pair) {
          auto [operand, place] = pair;
          return place == kAnyPlace || getPlace(operand) == place;
        });
  }

  LogicalResult verifyStatics(Operation &op, const WholeOp &whole,
                              const Cut &cut) const {
    if (op.getPropertiesStorageSize() == 0)
      return success();
    DictionaryAttr expected = localizeStatics(whole, cut, ranks);
    Attribute found = aten::lookupSchema(&op)
                          ? Attribute(aten::getProperty(&op))
                          : op.getPropertiesAsAttribute();
    if (found == expected)
      return success();
    return op.emitOpError("expects the arguments ")
           << expected << " for a part, found " << found;
  }

  LogicalResult verifyTypes(Operation &op, const WholeOp &whole,
                            const Cut &cut) const {
    for (auto [result, type, place] :
         llvm::zip_equal(op.getResults(), whole.results, cut.results)) {
      if (!type)
        continue;
      RankedTensorType expected = getPartType(type, place, ranks);
      if (cast<RankedTensorType>(result.getType()).getShape() !=
          expected.getShape())
        return op.emitOpError("expects a result of ")
               << expected << ", found " << result.getType();
    }
    return success();
  }

  LogicalResult verifyResults() {
    Operation *terminator = func.getBody().front().getTerminator();
    for (OpOperand &operand : terminator->getOpOperands()) {
      unsigned i = operand.getOperandNumber();
      auto of = func.getResultAttrOfType<FlatSymbolRefAttr>(i, kGradientAttr);
      StateOp state = states.lookup(of);
      Place expected = kWholePlace;
      if (axis.isContext() && of)
        expected = kPartialPlace;
      else if (!axis.isContext() && state && state.getSplit())
        expected = toPlace(*state.getSplit());
      if (Place found = getPlace(operand.get()); found != expected)
        return func.emitError("result ")
               << i << " expects ranks of '" << group.getName().getValue()
               << "' to have " << describe(expected) << ", found "
               << describe(found);
    }
    return success();
  }

  func::FuncOp func;
  const StateTable &states;
  const Axis &axis;
  GroupAttr group;
  int64_t ranks;
  llvm::DenseMap<Value, Place> places;
  llvm::DenseMap<Value, RankedTensorType> wholeTypes;
};

struct VerifyPlaced final : fsdp::impl::VerifyPlacedBase<VerifyPlaced> {
  using Base::Base;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto told = getSetting<ParallelAttr>(module);
    bool isContext = axisName == kContextAxis;
    if ((isContext ? told.getCp() : told.getTp()) == 1)
      return;
    StateTable states(module);
    for (func::FuncOp func : getPrograms(module)) {
      if (!func->hasAttr(kCapturedAttr))
        continue;
      FailureOr<Axis> axis =
          isContext ? getContextAxis(func, told) : getTensorAxis(told);
      if (failed(axis) ||
          failed(PlacementVerifier(func, states, *axis).verify()))
        return signalPassFailure();
    }
  }
};

} // namespace
