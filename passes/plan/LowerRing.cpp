//===- LowerRing.cpp - Attention that passes keys and values on -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Ring attention (Liu, Zaharia and Abbeel 2023), with balanced pieces under a
// causal mask (as PyTorch's context_parallel and Llama 3). At step s of n rank
// r has the keys and values of rank j = r - s (mod n), whose pieces are j and
// 2 n - 1 - j, as its own queries' are r and 2 n - 1 - r. At step 0 they are
// its own: one call under the mask, since its early piece comes before its late
// one. Later
//
//   late queries with j's early keys                  always,
//   early queries with j's early keys                 if j < r, which is s <=
//   r, late queries with j's late keys                   otherwise:
//
// two calls, each of one shape on all ranks. While they run, the keys of the
// next step are on their way. In backward the gradients of keys and values go
// round with them, and come home with a last step.
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/analysis/Marks.h"
#include "passes/analysis/Programs.h"
#include "passes/plan/PartialAttention.h"

#include "ir/aten/Aten.h"
#include "ir/aten/Matchers.h"
#include "ir/aten/OpModel.h"

using namespace mlir;
using namespace fsdp;

namespace fsdp {
#define GEN_PASS_DEF_LOWERRING
#include "passes/Passes.h.inc"
} // namespace fsdp

namespace {

/// Operators one behind the other, of one operand and one result each, and what
/// the first of them reads or the last of them makes.
struct Chain {
  Value end;
  SmallVector<Operation *> steps;
};

bool isDense(RankedTensorType type) {
  return type == getDenseType(type, type.getShape());
}

bool isOneToOne(Operation *op) {
  return op && op->getNumOperands() == 1 && op->getNumResults() == 1 &&
         isa<RankedTensorType>(op->getResult(0).getType());
}

/// The smallest tensor that `value` is a widened copy of (heads that are
/// repeated for groups of queries), and what widens it.
Chain findNarrow(Value value) {
  Chain best{value, {}};
  SmallVector<Operation *> steps;
  for (Value at = value; Operation *op = at.getDefiningOp();) {
    if (!isOneToOne(op) ||
        !(aten::getViewSource(op->getResult(0)) || aten::isClone(op)))
      break;
    steps.insert(steps.begin(), op);
    at = op->getOperand(0);
    if (getTensor(at).getNumElements() < getTensor(best.end).getNumElements() &&
        isDense(getTensor(at)))
      best = {at, steps};
  }
  return best;
}

/// The smallest tensor that is made of `gradient` alone by views and sums over
/// dims, and what makes it.
Chain findNarrowed(Value gradient) {
  Chain best{gradient, {}};
  SmallVector<Operation *> steps;
  for (Value at = gradient; at.hasOneUse();) {
    Operation *op = *at.user_begin();
    if (!isOneToOne(op) ||
        getTensor(op->getResult(0)).getElementType() !=
            getTensor(at).getElementType() ||
        !(aten::getViewSource(op->getResult(0)) || aten::isClone(op) ||
          getName(op) == "aten.sum.dim_IntList"))
      break;
    steps.push_back(op);
    at = op->getResult(0);
    if (getTensor(at).getNumElements() < getTensor(best.end).getNumElements() &&
        isDense(getTensor(at)))
      best = {at, steps};
  }
  return best;
}

class RingLowering : PartialAttention {
public:
  RingLowering(Operation *op, PlacedAttr placed)
      : PartialAttention(op, placed.getGroup()) {
    auto causal =
        aten::getProperty(op).getAs<BoolAttr>("is_causal"); // false: left out
    isCausal = causal && causal.getValue();
  }

  void run() {
    key = findNarrow(get("key"));
    value = findNarrow(get("value"));
    travelling = {toMemory(key.end), toMemory(value.end)};
    isBackward() ? runBackward() : runForward();
  }

private:
  //===--------------------------------------------------------------------===//
  // What goes round
  //===--------------------------------------------------------------------===//

  /// Its dims as they lie in memory, without holes.
  Value toMemory(Value tensor) {
    RankedTensorType type = getTensor(tensor);
    if (!isDense(type))
      return ops.copy(tensor);
    SmallVector<int64_t> order = getMemoryOrder(type);
    return llvm::is_sorted(order)
               ? tensor
               : buildPermute(ops.get(), ops.getLoc(), tensor, order);
  }

  /// The other way round.
  Value fromMemory(Value tensor, RankedTensorType type) {
    return !isDense(type) || tensor.getType() == type
               ? tensor
               : buildView(ops.get(), ops.getLoc(), tensor, 0, type);
  }

  using Future = TypedValue<FutureType>;

  Future passOn(ArrayRef<Value> tensors) {
    SmallVector<Type> types = llvm::map_to_vector(
        tensors, [](Value tensor) { return tensor.getType(); });
    auto type = FutureType::get(op->getContext(), types);
    return StartOp::create(
               ops.get(), ops.getLoc(), type, tensors, Collective::Rotate,
               group, Purpose::Step, Stream::Replicate,
               StringAttr::get(op->getContext(), group.getName().getValue()))
        .getFuture();
  }

  SmallVector<Value> await(Future future) {
    auto wait = WaitOp::create(ops.get(), ops.getLoc(),
                               future.getType().getTensors(), future);
    return llvm::to_vector(ValueRange(wait.getResults()));
  }

  /// The keys and values that come, as the operator reads them.
  std::pair<Value, Value> take(Future future) {
    travelling = await(future);
    return {widen(key, travelling[0]), widen(value, travelling[1])};
  }

  Value widen(const Chain &chain, Value came) {
    Value wide = fromMemory(came, getTensor(chain.end));
    for (Operation *step : chain.steps)
      wide = repeatOn(ops.get(), step, wide)->getResult(0);
    return wide;
  }

  static auto isWithEarly(int64_t step) {
    return [step](int64_t rank) { return step <= rank ? 0 : 1; };
  }

  //===--------------------------------------------------------------------===//
  // Forward
  //===--------------------------------------------------------------------===//

  void runForward() {
    Value query = get("query");
    Future next = passOn(travelling);
    Operation *first =
        call({{"query", query}, {"key", get("key")}, {"value", get("value")}},
             isCausal);
    Partial all = toPartial(first);
    Partial early, late;
    if (isCausal) {
      early = PartialAttention::half(all, false);
      late = PartialAttention::half(all, true);
    }
    for (int64_t step = 1; step < ranks; ++step) {
      auto [keys, values] = take(next);
      if (step + 1 < ranks)
        next = passOn(travelling);
      if (!isCausal) {
        all = merge(all, attend(query, keys, values, false));
        continue;
      }
      late = merge(late, attend(half(query, true), half(keys, false),
                                half(values, false), false));
      auto mine = isWithEarly(step);
      mergeByHalf(early, late,
                  attend(select(query, mine), select(keys, mine),
                         select(values, mine), false),
                  mine);
    }
    if (isCausal)
      all = cat(early, late);
    SmallVector<Value> results(first->getResults());
    results[0] = toResult(all.output, 0);
    results[1] = toResult(all.sum, 1);
    replace(results);
  }

  //===--------------------------------------------------------------------===//
  // Backward
  //===--------------------------------------------------------------------===//

  /// What a call gives to the tensor that `chain` makes of the operator's
  /// result `number`, in the type that sums are made in; contiguous.
  Value narrow(const Chain &chain, unsigned number, Value gradient) {
    Type element = getSumType();
    auto toSumType = [&](Type type) {
      return cast<RankedTensorType>(type).clone(element);
    };
    gradient = toType(ops, gradient, toSumType(getResultType(number)));
    for (Operation *step : chain.steps)
      gradient =
          ops.remake(step, gradient, toSumType(step->getResult(0).getType()))
              ->getResult(0);
    return ops.copy(gradient);
  }

  void runBackward() {
    auto whole = [](Value of) { return of; };
    Chain keyEnd = findNarrowed(op->getResult(1));
    Chain valueEnd = findNarrowed(op->getResult(2));
    Future next = passOn(travelling);
    Gradients own = differentiate(whole, get("key"), get("value"), isCausal);
    Value ofQuery = own.query, ofEarly, ofLate;
    if (isCausal) {
      ofEarly = half(own.query, false);
      ofLate = half(own.query, true);
    }
    SmallVector<Value> sums{narrow(keyEnd, 1, own.key),
                            narrow(valueEnd, 2, own.value)};
    for (int64_t step = 1; step < ranks; ++step) {
      auto [keys, values] = take(next);
      if (step + 1 < ranks)
        next = passOn(travelling);
      Future home = passOn(sums);
      Value ofKeys, ofValues;
      if (isCausal) {
        Gradients late =
            differentiate([&](Value of) { return half(of, true); },
                          half(keys, false), half(values, false), false);
        auto mine = isWithEarly(step);
        Gradients other =
            differentiate([&](Value of) { return select(of, mine); },
                          select(keys, mine), select(values, mine), false);
        Value isEarly = choose(1, 0, mine, getSumType());
        Value isLate = choose(0, 1, mine, getSumType());
        ofLate = ops.add(late.query, ofLate);
        ofEarly = ops.add(multiply(other.query, isEarly), ofEarly);
        ofLate = ops.add(multiply(other.query, isLate), ofLate);
        auto join = [&](Value always, Value sometimes) {
          return ops.cat({ops.add(always, multiply(sometimes, isEarly)),
                          multiply(sometimes, isLate)},
                         kTokens);
        };
        ofKeys = join(late.key, other.key);
        ofValues = join(late.value, other.value);
      } else {
        Gradients each = differentiate(whole, keys, values, false);
        ofQuery = ops.add(ofQuery, each.query);
        ofKeys = each.key;
        ofValues = each.value;
      }
      ofKeys = narrow(keyEnd, 1, ofKeys);
      ofValues = narrow(valueEnd, 2, ofValues);
      SmallVector<Value> came = await(home);
      sums = {ops.add(came[0], ofKeys), ops.add(came[1], ofValues)};
    }
    sums = await(passOn(sums));
    if (isCausal)
      ofQuery = ops.cat({ofEarly, ofLate}, kTokens);
    op->getResult(0).replaceAllUsesWith(toResult(ofQuery, 0));
    finish(keyEnd, sums[0]);
    finish(valueEnd, sums[1]);
    op->erase();
  }

  /// Puts `sum` in the place of what `chain` made, and removes that.
  void finish(const Chain &chain, Value sum) {
    Value end = chain.end;
    end.replaceAllUsesWith(toType(ops, sum, getTensor(end)));
    for (Operation *step : llvm::reverse(chain.steps))
      step->erase();
  }

  bool isCausal;
  Chain key, value;
  SmallVector<Value> travelling; ///< keys and values, as they lie in memory
};

struct LowerRing final : fsdp::impl::LowerRingBase<LowerRing> {
  void runOnOperation() override {
    for (func::FuncOp program : getPrograms(getOperation())) {
      SmallVector<Operation *> found;
      for (Operation &op : program.getBody().front())
        if (op.hasAttr(kRingAttr))
          found.push_back(&op);
      for (Operation *op : found)
        RingLowering(op, op->getAttrOfType<PlacedAttr>(kRingAttr)).run();
    }
  }
};

} // namespace
