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

class Planner {
public:
  Planner(func::FuncOp func, const StateTable &states, int64_t ranks,
          function_ref<bool(StateOp)> isFixed, Splits &splits)
      : func(func), states(states), ranks(ranks), isFixed(isFixed),
        splits(splits), forward(func) {}

  void run() {
    for (BlockArgument argument : func.getArguments()) {
      StateOp state = getParameter(argument);
      if (!state || state.getGlobalType().getRank() < 2)
        continue;
      for (int64_t dim = 0; dim < state.getGlobalType().getRank(); ++dim)
        if (!splits.contains(state) && trace(argument, dim))
          for (auto [split, at] : found)
            splits.insert({split, at});
    }
  }

private:
  StateOp getParameter(Value value) const {
    auto argument = dyn_cast<BlockArgument>(value);
    StateOp state =
        argument ? states.lookup(func, argument.getArgNumber()) : StateOp();
    return state && isParameter(state) && !isFixed(state) ? state : StateOp();
  }

  /// Whether all that reads `argument` cut along `dim` can be computed in parts
  /// up to sums. Then `found` has what has to be split for it.
  bool trace(BlockArgument argument, int64_t dim) {
    found.clear();
    places.clear();
    worklist.clear();
    ends = false;
    if (!split(getParameter(argument), dim) || !reach(argument, dim))
      return false;
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

  bool split(StateOp state, int64_t dim) {
    if (splits.contains(state) && splits.lookup(state) != dim)
      return false;
    auto [it, isNew] = found.insert({state, dim});
    return isNew || it->second == dim;
  }

  bool reach(Value value, int64_t dim) {
    auto [it, isNew] = places.try_emplace(value, dim);
    if (isNew)
      worklist.push_back(value);
    return isNew || it->second == dim;
  }

  bool follow(Operation *reader) {
    if (!aten::lookupSchema(reader))
      return false;
    if (reader->hasAttr(kClassesAttr)) {
      ends = true;
      return true;
    }
    WholeOp op = WholeOp::ofCaptured(reader);
    for (const Cut &cut : findCuts(op, {ranks}))
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
    if (!isMade && reader->getNumOperands() > 1 && !isProduct(reader))
      return false;
    for (auto [operand, place] :
         llvm::zip_equal(reader->getOperands(), cut.operands)) {
      if (places.contains(operand) || !place.isPart())
        continue;
      if (isSum) {
        // The other factor's rows, which are split as well.
        auto [other, dim] = traceBack(operand, place.dim);
        if (!other || !split(other, dim))
          return false;
        ends = true;
      } else if (StateOp bias = getParameter(operand);
                 bias && bias.getGlobalType().getRank() == 1 &&
                 operand.hasOneUse() && !split(bias, place.dim)) {
        return false;
      }
    }
    if (isSum)
      return isProduct(reader) && isMade;
    for (auto [result, place] :
         llvm::zip_equal(reader->getResults(), cut.results))
      if (place.isPart() && !reach(result, place.dim))
        return false;
    return true;
  }

  /// Whether views and casts of one parameter are all that made a value.
  bool isOfParameter(Value value) const {
    while (Operation *op = value.getDefiningOp()) {
      if (op->getNumOperands() != 1)
        return false;
      value = op->getOperand(0);
    }
    return bool(getParameter(value));
  }

  /// The parameter that `value` is a view or cast of, and which of its dims is
  /// `dim`; null if there is none.
  std::pair<StateOp, int64_t> traceBack(Value value, int64_t dim) const {
    while (Operation *op = value.getDefiningOp()) {
      if (op->getNumOperands() != 1 || !aten::lookupSchema(op))
        return {};
      bool found = false;
      for (const Cut &cut : findCuts(WholeOp::ofCaptured(op), {ranks}))
        if (cut.results[cast<OpResult>(value).getResultNumber()] ==
                Place(dim) &&
            cut.operands.front().isPart()) {
          value = op->getOperand(0);
          dim = cut.operands.front().dim;
          found = true;
          break;
        }
      if (!found)
        return {};
    }
    return {getParameter(value), dim};
  }

  func::FuncOp func;
  const StateTable &states;
  int64_t ranks;
  function_ref<bool(StateOp)> isFixed;
  Splits &splits;
  ForwardSlice forward;
  // Of one trace.
  llvm::MapVector<Operation *, int64_t> found;
  llvm::DenseMap<Value, int64_t> places;
  SmallVector<Value> worklist;
  bool ends = false; ///< whether any sum was reached
};

} // namespace

void fsdp::planAutomatically(func::FuncOp func, const StateTable &states,
                             int64_t ranks, function_ref<bool(StateOp)> isFixed,
                             Splits &splits) {
  Planner(func, states, ranks, isFixed, splits).run();
}
