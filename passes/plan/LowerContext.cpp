//===- LowerContext.cpp - Attention of ranks that have parts of a sequence
//-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Of 2 n pieces of the sequence, rank r of n has the queries of pieces r
// (early) and 2 n - 1 - r (late). Under a causal mask a piece reads itself
// under the mask and all of each piece in front of it. So every rank has
//
//   early with r, late with 2 n - 1 - r     under the mask,
//   late with pieces 0 .. n - 1             at once,
//   for j = 0 .. n - 2:  early with j       if j < r,
//                        late with 2 n - 2 - j  otherwise:
//
// n + 2 calls, each of one shape on all ranks, and no more products than one
// rank alone would have, divided by n.
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/analysis/Marks.h"
#include "passes/analysis/Programs.h"
#include "passes/plan/PartialAttention.h"

using namespace mlir;
using namespace fsdp;

namespace fsdp {
#define GEN_PASS_DEF_LOWERCONTEXT
#include "passes/Passes.h.inc"
} // namespace fsdp

namespace {

class ContextLowering : PartialAttention {
public:
  ContextLowering(Operation *op, PlacedAttr queries)
      : PartialAttention(op, queries.getGroup()) {}

  void run() { replace(isBackward() ? runBackward() : runForward()); }

private:
  /// Of `step`: with which of its pieces a rank computes, its early (0) or its
  /// late one (1), and with which of all it does.
  static int64_t getHalf(int64_t step, int64_t rank) {
    return step < rank ? 0 : 1;
  }
  int64_t getOther(int64_t step, int64_t rank) const {
    return getHalf(step, rank) == 0 ? step : 2 * ranks - 2 - step;
  }

  SmallVector<Value> runForward() {
    Value query = get("query"), key = get("key"), value = get("value");
    auto own = [&](bool late) {
      auto number = [&](int64_t rank) { return getPiece(rank, ranks, late); };
      return call({{"query", half(query, late)},
                   {"key", select(key, number)},
                   {"value", select(value, number)}},
                  true);
    };
    Operation *first = own(false);
    Partial early = toPartial(first), late = toPartial(own(true));
    int64_t front = ranks * piece;
    late =
        merge(late, attend(half(query, true), ops.slice(key, kTokens, 0, front),
                           ops.slice(value, kTokens, 0, front), false));
    for (int64_t step = 0; step + 1 < ranks; ++step) {
      auto mine = [&](int64_t rank) { return getHalf(step, rank); };
      auto keys = [&](int64_t rank) { return getOther(step, rank); };
      mergeByHalf(early, late,
                  attend(select(query, mine), select(key, keys),
                         select(value, keys), false),
                  mine);
    }
    SmallVector<Value> results(first->getResults());
    Partial all = cat(early, late);
    results[0] = toResult(all.output, 0);
    results[1] = toResult(all.sum, 1);
    return results;
  }

  /// One piece among zeros, in the place that each rank has it, of `ranks`.
  template <typename Start>
  Value place(Value own, Start &&number) {
    Value none = zeros(own, (ranks - 1) * piece);
    return ops.selectRows(ops.cat({none, own, none}, kTokens), kTokens,
                          forEachRank([&](int64_t rank) {
                            return (ranks - 1 - number(rank)) * piece;
                          }),
                          ranks * piece, group);
  }

  SmallVector<Value> runBackward() {
    Value key = get("key"), value = get("value");
    int64_t front = ranks * piece;
    auto own = [&](bool late) {
      auto number = [&](int64_t rank) { return getPiece(rank, ranks, late); };
      return differentiate([&](Value of) { return half(of, late); },
                           select(key, number), select(value, number), true);
    };
    Gradients early = own(false), late = own(true);
    Gradients all = differentiate([&](Value of) { return half(of, true); },
                                  ops.slice(key, kTokens, 0, front),
                                  ops.slice(value, kTokens, 0, front), false);
    Value ofEarly = early.query, ofLate = ops.add(late.query, all.query);
    // By step: what pieces in the front half get, and those in the back half.
    SmallVector<Value> keysFront, keysBack, valuesFront, valuesBack;
    for (int64_t step = 0; step + 1 < ranks; ++step) {
      auto mine = [&](int64_t rank) { return getHalf(step, rank); };
      auto keys = [&](int64_t rank) { return getOther(step, rank); };
      Gradients each =
          differentiate([&](Value of) { return select(of, mine); },
                        select(key, keys), select(value, keys), false);
      Value isEarly = choose(1, 0, mine, getSumType());
      Value isLate = choose(0, 1, mine, getSumType());
      ofEarly = ops.add(ofEarly, multiply(each.query, isEarly));
      ofLate = ops.add(ofLate, multiply(each.query, isLate));
      keysFront.push_back(multiply(each.key, isEarly));
      keysBack.push_back(multiply(each.key, isLate));
      valuesFront.push_back(multiply(each.value, isEarly));
      valuesBack.push_back(multiply(each.value, isLate));
    }
    auto join = [&](Value ofOwnEarly, Value ofOwnLate, Value ofAll,
                    SmallVector<Value> inFront, SmallVector<Value> inBack) {
      std::reverse(inBack.begin(), inBack.end());
      // The last piece of the front half only the late queries read, at once;
      // the last of all only its own.
      inFront.push_back(zeros(ofOwnEarly, piece));
      inBack.push_back(zeros(ofOwnLate, piece));
      Value first = ops.add(ofAll, ops.cat(inFront, kTokens));
      first =
          ops.add(first, place(ofOwnEarly, [](int64_t rank) { return rank; }));
      Value second = ops.add(
          ops.cat(inBack, kTokens),
          place(ofOwnLate, [&](int64_t rank) { return ranks - 1 - rank; }));
      return ops.cat({first, second}, kTokens);
    };
    SmallVector<Value> results(op->getNumResults());
    results[0] = toResult(ops.cat({ofEarly, ofLate}, kTokens), 0);
    results[1] =
        toResult(join(early.key, late.key, all.key, keysFront, keysBack), 1);
    results[2] = toResult(
        join(early.value, late.value, all.value, valuesFront, valuesBack), 2);
    return results;
  }
};

struct LowerContext final : fsdp::impl::LowerContextBase<LowerContext> {
  void runOnOperation() override {
    for (func::FuncOp program : getPrograms(getOperation()))
      for (Operation &op :
           llvm::make_early_inc_range(program.getBody().front()))
        if (auto queries = op.getAttrOfType<PlacedAttr>(kQueriesAttr))
          ContextLowering(&op, queries).run();
  }
};

} // namespace
