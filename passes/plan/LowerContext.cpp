//===- LowerContext.cpp - Attention of ranks that have parts of a sequence
//-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Partial attention is put together by the logarithms of its sums, as ring and
// flash attention do (Milakov and Gimelshein 2018; Liu, Zaharia and Abbeel
// 2023).
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
#include "passes/analysis/TensorOps.h"

#include "ir/aten/Aten.h"
#include "ir/aten/OpModel.h"

#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace fsdp;

namespace fsdp {
#define GEN_PASS_DEF_LOWERCONTEXT
#include "passes/Passes.h.inc"
} // namespace fsdp

namespace {

constexpr int64_t kTokens = 2; ///< the dim of [batch, heads, tokens, features]

class ContextLowering {
public:
  ContextLowering(Operation *op, PlacedAttr queries)
      : op(op), group(queries.getGroup()), ranks(group.getSize()), ops(op) {
    for (const aten::BoundTensors &bound : aten::getTensorArguments(op))
      for (Value tensor : bound.tensors)
        if (tensor)
          names.push_back(bound.argument->name);
    piece = getTensor(get("query")).getDimSize(kTokens) / 2;
  }

  void run() {
    SmallVector<Value> results =
        getName(op).ends_with("_backward") ? runBackward() : runForward();
    for (auto [old, result] : llvm::zip(op->getResults(), results))
      if (result)
        old.replaceAllUsesWith(result);
    op->erase();
  }

private:
  Value get(StringRef name) const {
    return op->getOperand(llvm::find(names, name) - names.begin());
  }

  /// Of `step`: with which of its pieces a rank computes, its early (0) or its
  /// late one (1), and with which of all it does.
  static int64_t getHalf(int64_t step, int64_t rank) {
    return step < rank ? 0 : 1;
  }
  int64_t getOther(int64_t step, int64_t rank) const {
    return getHalf(step, rank) == 0 ? step : 2 * ranks - 2 - step;
  }

  /// Rows of a rank's own part: of its early or of its late piece.
  Value half(Value part, bool late) {
    return ops.slice(part, kTokens, late ? piece : 0, (late ? 2 : 1) * piece);
  }

  template <typename Start>
  SmallVector<int64_t> forEachRank(Start &&start) const {
    SmallVector<int64_t> starts;
    for (int64_t rank = 0; rank < ranks; ++rank)
      starts.push_back(start(rank));
    return starts;
  }

  /// One piece for each rank.
  template <typename Start>
  Value select(Value tensor, Start &&number) {
    return ops.selectRows(tensor, kTokens, forEachRank([&](int64_t rank) {
                            return number(rank) * piece;
                          }),
                          piece, group);
  }

  /// A number for ranks whose `step` is with their early piece, another for
  /// those whose is with the late one: a tensor of one element.
  Value choose(double early, double late, int64_t step, Type element) {
    auto type = RankedTensorType::get({2}, element);
    FloatAttr each[] = {FloatAttr::get(element, early),
                        FloatAttr::get(element, late)};
    SmallVector<Attribute> values(std::begin(each), std::end(each));
    Value both =
        ConstantOp::create(ops.get(), ops.getLoc(), type,
                           DenseElementsAttr::get(type, values), nullptr);
    return ops.selectRows(
        both, 0, forEachRank([&](int64_t rank) { return getHalf(step, rank); }),
        1, group);
  }

  /// The operator with other operands for those that are cut by tokens: results
  /// of their lengths.
  Operation *call(ArrayRef<std::pair<StringRef, Value>> others, bool causal) {
    SmallVector<Value> operands(op->getOperands());
    int64_t keys = 0, queries = 0;
    for (auto [name, value] : others) {
      operands[llvm::find(names, name) - names.begin()] = value;
      int64_t tokens = getTensor(value).getDimSize(kTokens);
      if (name == "key")
        keys = tokens;
      if (name == "query")
        queries = tokens;
    }
    bool isBackward = getName(op).ends_with("_backward");
    SmallVector<Type> types(op->getResultTypes());
    for (auto [i, type] : llvm::enumerate(types)) {
      auto tensor = dyn_cast<RankedTensorType>(type);
      bool ofKeys = isBackward && (i == 1 || i == 2);
      if (!tensor || i > (isBackward ? 2u : 1u))
        continue;
      SmallVector<int64_t> shape(tensor.getShape());
      shape[kTokens] = ofKeys ? keys : queries;
      type = getDenseType(tensor, shape);
    }
    NamedAttrList statics(aten::getProperty(op));
    // What equals its default is left out.
    Attribute flag = ops.get().getBoolAttr(causal);
    statics.set("is_causal", flag);
    if (aten::lookupSchema(op)
            ->find("is_causal")
            ->getDefault(op->getContext()) == flag)
      statics.erase("is_causal");
    if (statics.get("max_q"))
      statics.set("max_q", ops.get().getI64IntegerAttr(queries));
    if (statics.get("max_k"))
      statics.set("max_k", ops.get().getI64IntegerAttr(keys));
    return ops.remake(op, operands, types,
                      statics.getDictionary(op->getContext()));
  }

  Value toElement(Value value, Type element) {
    return ops.cast(ops.copy(value), element);
  }

  /// `value`, contiguous, as the result `number` of the operator is.
  Value toResult(Value value, unsigned number) {
    auto type = cast<RankedTensorType>(op->getResult(number).getType());
    SmallVector<int64_t> order = getMemoryOrder(type);
    value = ops.cast(value, type.getElementType());
    if (!llvm::is_sorted(order))
      value = ops.copy(buildPermute(ops.get(), ops.getLoc(), value, order));
    return value.getType() == type
               ? value
               : buildView(ops.get(), ops.getLoc(), value, 0, type);
  }

  //===--------------------------------------------------------------------===//
  // Forward
  //===--------------------------------------------------------------------===//

  /// What some keys make of queries: the output, and the logarithm of the sum
  /// that it was divided by.
  struct Partial {
    Value output, sum;
  };

  Partial toPartial(Operation *each) {
    Value sum = ops.copy(each->getResult(1));
    Type element = getElementTypeOrSelf(sum.getType());
    return {toElement(each->getResult(0), element), sum};
  }

  Value scale(Value output, Value sum, Value all) {
    RankedTensorType type = getTensor(sum);
    Value share =
        ops.make("aten.exp",
                 {ops.make("aten.sub.Tensor", {sum, all}, {}, type)}, {}, type);
    // cuDNN's has a dim of its own for the features.
    SmallVector<int64_t> shape(type.getShape());
    if (type.getRank() == 3)
      shape.push_back(1);
    return ops.make("aten.mul.Tensor", {output, ops.view(share, shape)}, {},
                    getTensor(output));
  }

  Partial merge(Partial a, Partial b) {
    Value all =
        ops.make("aten.logaddexp", {a.sum, b.sum}, {}, getTensor(a.sum));
    return {ops.add(scale(a.output, a.sum, all), scale(b.output, b.sum, all)),
            all};
  }

  SmallVector<Value> runForward() {
    Value query = get("query"), key = get("key"), value = get("value");
    auto attend = [&](Value q, Value k, Value v, bool causal) {
      return call({{"query", q}, {"key", k}, {"value", v}}, causal);
    };
    auto own = [&](bool late) {
      auto number = [&](int64_t rank) { return getPiece(rank, ranks, late); };
      return attend(half(query, late), select(key, number),
                    select(value, number), true);
    };
    Operation *first = own(false);
    Partial early = toPartial(first), late = toPartial(own(true));
    int64_t front = ranks * piece;
    late = merge(late, toPartial(attend(
                           half(query, true), ops.slice(key, kTokens, 0, front),
                           ops.slice(value, kTokens, 0, front), false)));
    constexpr double kNever = -std::numeric_limits<double>::infinity();
    for (int64_t step = 0; step + 1 < ranks; ++step) {
      auto keys = [&](int64_t rank) { return getOther(step, rank); };
      Partial other = toPartial(attend(
          select(query, [&](int64_t rank) { return getHalf(step, rank); }),
          select(key, keys), select(value, keys), false));
      Type element = getElementTypeOrSelf(other.sum.getType());
      auto only = [&](double forEarly, double forLate) {
        return Partial{
            other.output,
            ops.add(other.sum, choose(forEarly, forLate, step, element))};
      };
      early = merge(early, only(0, kNever));
      late = merge(late, only(kNever, 0));
    }
    SmallVector<Value> results(first->getResults());
    results[0] = toResult(ops.cat({early.output, late.output}, kTokens), 0);
    results[1] = toResult(ops.cat({early.sum, late.sum}, kTokens), 1);
    return results;
  }

  //===--------------------------------------------------------------------===//
  // Backward
  //===--------------------------------------------------------------------===//

  /// Gradients of queries, keys and values in the type that they are added up
  /// in.
  struct Gradients {
    Value query, key, value;
  };

  Gradients toGradients(Operation *each) {
    auto result = [&](unsigned i) {
      return toElement(each->getResult(i), getSumType());
    };
    return {result(0), result(1), result(2)};
  }

  /// Low precision would lose what several calls give little of.
  Type getSumType() const {
    Type own = getElementTypeOrSelf(op->getResult(0).getType());
    return own.getIntOrFloatBitWidth() < 32
               ? Type(Float32Type::get(op->getContext()))
               : own;
  }

  /// What the operator reads by tokens of its queries.
  SmallVector<StringRef> listOfQueries() const {
    SmallVector<StringRef> found;
    for (StringRef name : names)
      if (llvm::is_contained(
              {"query", "grad_out", "grad_out_", "out", "logsumexp"}, name))
        found.push_back(name);
    return found;
  }

  template <typename Take>
  Gradients differentiate(Take &&takeQueries, Value key, Value value,
                          bool causal) {
    SmallVector<std::pair<StringRef, Value>> others{{"key", key},
                                                    {"value", value}};
    for (StringRef name : listOfQueries())
      others.push_back({name, takeQueries(get(name))});
    return toGradients(call(others, causal));
  }

  Value zeros(Value like, int64_t tokens) {
    RankedTensorType type = getTensor(like);
    SmallVector<int64_t> shape(type.getShape());
    shape[kTokens] = tokens;
    return ops.fill(ops.get().getF64FloatAttr(0), shape, type.getElementType());
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
      auto keys = [&](int64_t rank) { return getOther(step, rank); };
      Gradients each = differentiate(
          [&](Value of) {
            return select(of,
                          [&](int64_t rank) { return getHalf(step, rank); });
          },
          select(key, keys), select(value, keys), false);
      Value isEarly = choose(1, 0, step, getSumType());
      Value isLate = choose(0, 1, step, getSumType());
      auto only = [&](Value gradient, Value factor) {
        return ops.make("aten.mul.Tensor", {gradient, factor}, {},
                        getTensor(gradient));
      };
      ofEarly = ops.add(ofEarly, only(each.query, isEarly));
      ofLate = ops.add(ofLate, only(each.query, isLate));
      keysFront.push_back(only(each.key, isEarly));
      keysBack.push_back(only(each.key, isLate));
      valuesFront.push_back(only(each.value, isEarly));
      valuesBack.push_back(only(each.value, isLate));
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

  Operation *op;
  GroupAttr group;
  int64_t ranks, piece;
  TensorOps ops;
  SmallVector<StringRef> names; ///< of operands
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
