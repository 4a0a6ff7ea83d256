//===- Partition.cpp - The ranks of an axis compute a step together -------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/Passes.h"
#include "passes/analysis/Decisions.h"
#include "passes/analysis/ForwardSlice.h"
#include "passes/analysis/Marks.h"
#include "passes/analysis/Mesh.h"
#include "passes/analysis/Programs.h"
#include "passes/analysis/States.h"
#include "passes/analysis/TensorBuilders.h"
#include "passes/partition/Localize.h"
#include "passes/partition/PlacedValues.h"
#include "passes/partition/PlanParallel.h"
#include "passes/partition/Redistribute.h"

#include "ir/aten/Matchers.h"

using namespace mlir;
using namespace fsdp;

namespace fsdp {
#define GEN_PASS_DEF_PARTITION
#include "passes/Passes.h.inc"
} // namespace fsdp

namespace {

class Partitioner {
public:
  Partitioner(func::FuncOp func, const StateTable &states, const Axis &axis,
              ParallelAttr told)
      : func(func), states(states), axis(axis), told(told),
        builder(func.getContext()), values(axis) {}

  LogicalResult run() {
    Block &body = func.getBody().front();
    body.walk(forgetTogether);
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
  /// Along 'cp' ranks read the same batch, and begin with all of it.
  void placeArguments() {
    if (axis.isContext())
      return;
    for (BlockArgument argument : func.getArguments()) {
      StateOp state = states.lookup(func, argument.getArgNumber());
      if (!state || !state.getSplit())
        continue;
      values.setWholeType(argument, cast<RankedTensorType>(argument.getType()));
      argument.setType(state.getGlobalType());
      values.set(argument, argument, toPlace(*state.getSplit()));
      splitParameters.insert(argument);
    }
  }

  Place getPlace(Value captured) const { return values.getPlace(captured); }

  Value get(Value captured, Place to) {
    return values.get(builder, captured, to, isBackward);
  }

  std::vector<Cut> listCuts(Operation &op, const WholeOp &whole) const {
    return findCuts(
        whole, axis.getPieces(whole, llvm::map_to_vector(
                                         op.getOperands(), [&](Value operand) {
                                           return getPlace(operand);
                                         })));
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
      if (now == kPartialPlace && values.isAt(operand, kWholePlace))
        now = kWholePlace;
      if (place == kAnyPlace ? now != kWholePlace
                             : place != kWholePlace && place == now)
        return true;
    }
    // The gradient of a matrix whose rows were looked up in parts.
    if (isLookupOfRows(&op, cut) &&
        lookups.contains({op.getOperand(1), whole.results.front()}))
      return true;
    // Who has which classes: of numbers that nobody has parts of.
    if (op.hasAttr(kClassesAttr) && whole.getName() == "aten.eq.Tensor" &&
        cut.results.front() == Place(1))
      return true;
    return axis.alongSequence &&
           (axis.isContext() ? isOfTokens(op, whole, cut)
                             : isOfSequence(op, whole, cut));
  }

  /// Whether the cut is one of the sequence, of a sum or of an embedding, with
  /// which a part of the program that works on rows begins.
  bool isOfSequence(Operation &op, const WholeOp &whole, const Cut &cut) const {
    RankedTensorType result = whole.results.front();
    if (!result || result.getRank() < 3 ||
        cut.results.front() != Place(result.getRank() - 2))
      return false;
    if (whole.getName() == "aten.embedding")
      return true;
    return llvm::any_of(op.getOperands(), [&](Value operand) {
      return getPlace(operand) == kPartialPlace;
    });
  }

  /// The same where the length of a sequence is known.
  bool isOfTokens(Operation &op, const WholeOp &whole, const Cut &cut) const {
    auto isTokens = [&](RankedTensorType type, Place place) {
      return place.isPart() &&
             type.getDimSize(place.dim) == place.blocks * axis.sequence;
    };
    if (whole.getName() == "aten.embedding")
      return isTokens(whole.operands[1], cut.operands[1]);
    return llvm::any_of(llvm::enumerate(cut.operands), [&](auto each) {
      return getPlace(op.getOperand(each.index())) == kPartialPlace &&
             isTokens(whole.operands[each.index()], each.value());
    });
  }

  /// Bytes that the cut asks to be sent; none if it cannot be.
  std::optional<int64_t> getCost(Operation &op, const Cut &cut) const {
    int64_t bytes = 0;
    SmallVector<std::pair<Value, Place>> counted;
    for (auto [i, place] : llvm::enumerate(cut.operands)) {
      Value operand = op.getOperand(i);
      // A summand of what is whole is one only of what a product adds to.
      if (place == kPartialPlace && getPlace(operand) == kWholePlace &&
          !(i == 0 && addsToFirst(&op)))
        return std::nullopt;
      std::optional<int64_t> own = values.getCost(operand, place);
      if (!own)
        return std::nullopt;
      if (std::pair<Value, Place> at{operand, place};
          !llvm::is_contained(counted, at)) {
        counted.push_back(at);
        bytes += *own;
      }
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
    for (const Cut &cut : listCuts(op, whole)) {
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

  /// Numbers that codes of a split parameter stand for: where rows of codes are
  /// parts as well, of these alone; else of all, and then a part is taken.
  LogicalResult placeNumbers(DequantizeOp op, SplitAttr split) {
    op->removeAttr(kNumbersAttr);
    Place place = toPlace(split);
    Value numbers = op.getResult();
    splitParameters.insert(numbers);
    WholeOp whole = values.describe(*op);
    builder.setInsertionPoint(op);
    for (const Cut &cut : listCuts(*op, whole))
      if (cut.results.front() == place) {
        Operation *part = values.buildPart(
            builder, *op, whole, cut, {get(op.getBlocks(), cut.operands[0])});
        if (!part)
          return failure();
        values.set(numbers, part->getResult(0), place);
        replaced.push_back(op);
        return success();
      }
    builder.setInsertionPointAfter(op);
    values.set(numbers, get(numbers, place), place);
    return success();
  }

  LogicalResult place(Operation &op) {
    if (auto split = op.getAttrOfType<SplitAttr>(kNumbersAttr))
      return placeNumbers(cast<DequantizeOp>(op), split);
    WholeOp whole = values.describe(op);
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
    Operation *part = values.buildPart(builder, op, whole, cut, operands);
    if (!part)
      return failure();
    if (isRing(whole, cut))
      part->setAttr(kRingAttr, axis.toAttr(getTokensDim(whole)));
    else if (axis.isContext() &&
             ((cut.results.front() == Place(getTokensDim(whole)) &&
               (isCausalAttention(&op) || findWindow(whole))) ||
              findDocumentsPlace(whole) == cut.results.front()))
      part->setAttr(kQueriesAttr, axis.toAttr(cut.results.front()));
    if (isLookupOfRows(&op, cut)) {
      part->setAttr(kRowsAttr, axis.toAttr(0));
      lookups.insert({op.getOperand(1), whole.operands.front()});
    }
    for (auto [captured, result, place] :
         llvm::zip_equal(op.getResults(), part->getResults(), cut.results))
      values.set(captured, result, place);
    // Views and casts of a parameter are the parameter still.
    if (op.getNumOperands() == 1 && splitParameters.contains(op.getOperand(0)))
      for (OpResult result : op.getResults())
        splitParameters.insert(result);
    replaced.push_back(&op);
    return success();
  }

  /// Where a result leaves. Along 'tp', gradients of split parameters do as
  /// these are split; along 'cp', all gradients as summands, which are added up
  /// with those of other batches. All else leaves whole.
  Place placeResult(unsigned number) {
    auto of =
        func.getResultAttrOfType<FlatSymbolRefAttr>(number, kGradientAttr);
    if (axis.isContext())
      return of ? kPartialPlace : kWholePlace;
    StateOp state = states.lookup(of);
    return state && state.getSplit() ? toPlace(*state.getSplit()) : kWholePlace;
  }

  /// `captured` as it leaves. Casts are the last that happens to it, behind the
  /// exchange: sharding moves those of gradients behind its own.
  Value leave(Value captured, Place to) {
    Operation *op = captured.getDefiningOp();
    if (op && aten::isPlainCast(op) && getPlace(captured) != to) {
      Value source = leave(op->getOperand(0), to);
      Operation *again =
          to == kWholePlace
              ? repeatOn(builder, op, source)
              : values.buildPart(builder, *op, values.describe(*op),
                                 {{to}, {to}}, {source});
      return again->getResult(0);
    }
    Value value = get(captured, to);
    if (auto type = cast<RankedTensorType>(value.getType());
        to != kWholePlace || getPlace(captured) != kWholePlace)
      if (!aten::isContiguous(type) &&
          aten::isContiguous(values.getWholeType(captured)))
        value = copyInOrder(builder, captured.getLoc(), value);
    return value;
  }

  void placeResults() {
    Operation *terminator = func.getBody().front().getTerminator();
    builder.setInsertionPoint(terminator);
    for (OpOperand &operand : terminator->getOpOperands())
      operand.set(
          leave(operand.get(), placeResult(operand.getOperandNumber())));
  }

  //===--------------------------------------------------------------------===//
  // What people are told
  //===--------------------------------------------------------------------===//

  /// Features that a plan of the user's splits belong to heads, or the like:
  /// whole ones.
  LogicalResult verifyHeads(Operation &op, const WholeOp &whole) const {
    if (axis.isContext() || told.getAutomatic() || told.getSequence() ||
        whole.getName() != "aten.view")
      return success();
    Place place = getPlace(op.getOperand(0));
    RankedTensorType from = whole.operands.front(), to = whole.results.front();
    int64_t dim = place.dim, ranks = axis.getRanks();
    if (!place.isPart() || dim != from.getRank() - 1 || to.getRank() <= dim)
      return success();
    int64_t heads = to.getDimSize(dim);
    bool isSplit =
        to.getRank() > from.getRank() &&
        from.getShape().take_front(dim) == to.getShape().take_front(dim);
    if (!isSplit || heads % ranks == 0)
      return success();
    InFlightDiagnostic diagnostic =
        op.emitOpError("has ")
        << heads << " heads, or groups of features, of what is split over "
        << ranks << " ranks of '" << axis.group.getName().getValue()
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
      return getPlace(operand).isPart();
    });
    if (isKnown && (!gathers || (axis.alongSequence && !axis.isContext())))
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
  const Axis &axis;
  ParallelAttr told;
  OpBuilder builder;
  PlacedValues values;
  llvm::DenseSet<Value> splitParameters; ///< and views of them
  /// Indices, and the matrices whose rows they are, of look-ups in parts.
  llvm::DenseSet<std::pair<Value, Type>> lookups;
  SmallVector<Operation *> replaced;
  bool isBackward = false;
};

struct Partition final : fsdp::impl::PartitionBase<Partition> {
  using Base::Base;

  void runOnOperation() override {
    if (failed(run(getOperation())))
      signalPassFailure();
  }

private:
  LogicalResult run(ModuleOp module) {
    auto told = getSetting<ParallelAttr>(module);
    bool isContext = axisName == kContextAxis;
    if (!isContext && axisName != kTensorAxis)
      return module.emitError("expected the axis 'tp' or 'cp', found '")
             << axisName << "'";
    if ((isContext ? told.getCp() : told.getTp()) == 1)
      return success();
    if (!isContext && failed(planParallel(module, told)))
      return failure();
    StateTable states(module);
    for (func::FuncOp func : getPrograms(module)) {
      if (!func->hasAttr(kCapturedAttr))
        continue;
      FailureOr<Axis> axis =
          isContext ? getContextAxis(func, told) : getTensorAxis(told);
      if (failed(axis) || failed(Partitioner(func, states, *axis, told).run()))
        return failure();
      func.walk([](Operation *op) { op->removeAttr(kClassesAttr); });
    }
    return success();
  }
};

} // namespace
