//===- AutomaticPlan.cpp - Pairs of products to be split ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Megatron's pairs (column-parallel, then row-parallel), found in the program
// instead of by names: from each matrix forward through all that can be
// computed in parts.
//
//===----------------------------------------------------------------------===//

#include "passes/partition/AutomaticPlan.h"

#include "passes/analysis/ForwardSlice.h"
#include "passes/partition/Cuts.h"
#include "passes/partition/PlanParallel.h"

using namespace mlir;
using namespace fsdp;

namespace {

/// Of one dim: queries, keys, values and a gate.
constexpr int64_t kMostBlocks = 4;

class Planner {
public:
  Planner(func::FuncOp func, const StateTable &states, int64_t ranks,
          function_ref<bool(StateOp)> isFixed, Splits &splits)
      : func(func), states(states), ranks(ranks), isFixed(isFixed),
        splits(splits), forward(func) {}

  void run() {
    for (BlockArgument argument : func.getArguments()) {
      StateOp state = getParameter(argument);
      if (!state || getNumbersType(state).getRank() < 2)
        continue;
      // A matrix may give several tensors, whose heads are not one behind the
      // other: queries, keys and values, or both factors of a gate.
      for (int64_t blocks = 1; blocks <= kMostBlocks; ++blocks)
        for (int64_t dim = 0; dim < getNumbersType(state).getRank(); ++dim)
          if (!splits.contains(state) && trace(argument, Place(dim, blocks)))
            for (auto [split, at] : found)
              splits.insert({split, at});
    }
  }

private:
  /// Also of what stands for its codes.
  StateOp getParameter(Value value) const {
    if (auto dequantize = value.getDefiningOp<DequantizeOp>())
      value = dequantize.getBlocks();
    auto argument = dyn_cast<BlockArgument>(value);
    StateOp state =
        argument ? states.lookup(func, argument.getArgNumber()) : StateOp();
    return state && isParameter(state) && !isFixed(state) ? state : StateOp();
  }

  /// Whether all that reads `argument` cut along `dim` can be computed in parts
  /// up to sums. Then `found` has what has to be split for it.
  bool trace(BlockArgument argument, Place at) {
    found.clear();
    places.clear();
    worklist.clear();
    ends = false;
    pieces = {ranks};
    if (at.blocks != 1)
      pieces.blocks = {1, at.blocks};
    if (!split(getParameter(argument), at))
      return false;
    if (!getParameter(argument).getQuantized())
      reach(argument, at);
    else
      for (Operation *reader : argument.getUsers())
        reach(reader->getResult(0), at);
    while (!worklist.empty()) {
      Value value = worklist.pop_back_val();
      for (Operation *reader : value.getUsers())
        if (isa<func::ReturnOp>(reader)
                ? !isGradientOnly(value)
                : forward.contains(reader) && !follow(reader))
          return false;
    }
    return ends;
  }

  /// Whether no output is the value itself.
  bool isGradientOnly(Value value) {
    for (OpOperand &use : value.getUses())
      if (isa<func::ReturnOp>(use.getOwner()) &&
          func.getResultAttr(use.getOperandNumber(), kOutputAttr))
        return false;
    return true;
  }

  bool split(StateOp state, Place at) {
    RankedTensorType type = getNumbersType(state);
    if (type.getDimSize(at.dim) % (at.blocks * ranks) != 0)
      return false;
    if (auto told = splits.find(state);
        told != splits.end() && told->second != at)
      return false;
    auto [it, isNew] = found.insert({state, at});
    return isNew || it->second == at;
  }

  bool reach(Value value, Place at) {
    auto [it, isNew] = places.try_emplace(value, at);
    if (isNew)
      worklist.push_back(value);
    return isNew || it->second == at;
  }

  bool follow(Operation *reader) {
    if (isa<AmaxOp>(reader))
      return true; // few numbers, which are exchanged
    if (!aten::lookupSchema(reader) && !isa<EncodeOp>(reader))
      return false;
    if (reader->hasAttr(kClassesAttr)) {
      ends = true;
      return pieces.blocks.empty(); // whose they are is known of one block
    }
    WholeOp op = WholeOp::ofCaptured(reader);
    for (const Cut &cut : findCuts(op, pieces))
      if (fits(reader, cut))
        return take(reader, cut);
    return false;
  }

  /// Whether the cut has what was reached where it is.
  bool fits(Operation *reader, const Cut &cut) const {
    return llvm::all_of(
        llvm::zip_equal(reader->getOperands(), cut.operands), [&](auto pair) {
          auto [operand, place] = pair;
          auto it = places.find(operand);
          return it == places.end() ? place != kPartialPlace ||
                                          (addsToFirst(reader) &&
                                           reader->getOperand(0) == operand)
                                    : it->second == place;
        });
  }

  bool take(Operation *reader, const Cut &cut) {
    // Rows that are looked up, if their exchange is less than the matrix.
    if (isLookupOfRows(reader, cut)) {
      auto numberOf = [&](unsigned i) {
        return cast<RankedTensorType>(reader->getOperand(i).getType());
      };
      ends |= numberOf(0).getDimSize(0) > numberOf(1).getNumElements();
      return true;
    }
    bool isSum = cut.results.front() == kPartialPlace;
    // What was reached must be a product, not a factor that it is made of.
    bool isMade = llvm::any_of(reader->getOperands(), [&](Value operand) {
      return places.contains(operand) && !isOfParameter(operand);
    });
    if (!isMade && !isOfOne(reader) && !isProduct(reader))
      return false;
    for (auto [operand, place] :
         llvm::zip_equal(reader->getOperands(), cut.operands)) {
      if (places.contains(operand) || !place.isPart())
        continue;
      if (isSum) {
        // The other factor's rows, which are split as well.
        auto [other, at] = traceBack(operand, place);
        if (!other || !split(other, at))
          return false;
        ends = true;
      } else if (StateOp bias = getParameter(operand);
                 bias && getNumbersType(bias).getRank() == 1 &&
                 operand.hasOneUse() && !split(bias, place)) {
        return false;
      }
    }
    if (isSum)
      return isProduct(reader) && isMade;
    for (auto [result, place] :
         llvm::zip_equal(reader->getResults(), cut.results))
      if (place.isPart() && !reach(result, place))
        return false;
    return true;
  }

  /// Whether it makes something of its first operand alone, but for a scale.
  static bool isOfOne(Operation *op) {
    return op->getNumOperands() == 1 || isa<EncodeOp>(op);
  }

  /// Whether views and casts of one parameter are all that made a value.
  bool isOfParameter(Value value) const {
    while (Operation *op = value.getDefiningOp()) {
      if (!isOfOne(op))
        return false;
      value = op->getOperand(0);
    }
    return bool(getParameter(value));
  }

  /// The parameter that `value` is a view or cast of, and where it is cut if
  /// the view is at `at`; null if there is none.
  std::pair<StateOp, Place> traceBack(Value value, Place at) const {
    for (Operation *op = value.getDefiningOp(); op && !isa<DequantizeOp>(op);
         op = value.getDefiningOp()) {
      if (!isOfOne(op) || (!aten::lookupSchema(op) && !isa<EncodeOp>(op)))
        return {{}, at};
      bool found = false;
      for (const Cut &cut : findCuts(WholeOp::ofCaptured(op), pieces))
        if (cut.results[cast<OpResult>(value).getResultNumber()] == at &&
            cut.operands.front().isPart()) {
          value = op->getOperand(0);
          at = cut.operands.front();
          found = true;
          break;
        }
      if (!found)
        return {{}, at};
    }
    return {getParameter(value), at};
  }

  func::FuncOp func;
  const StateTable &states;
  int64_t ranks;
  function_ref<bool(StateOp)> isFixed;
  Splits &splits;
  ForwardSlice forward;
  // Of one trace.
  Splits found;
  llvm::DenseMap<Value, Place> places;
  Pieces pieces{};
  SmallVector<Value> worklist;
  bool ends = false; ///< whether any sum was reached
};

} // namespace

void fsdp::planAutomatically(func::FuncOp func, const StateTable &states,
                             int64_t ranks, function_ref<bool(StateOp)> isFixed,
                             Splits &splits) {
  Planner(func, states, ranks, isFixed, splits).run();
}
