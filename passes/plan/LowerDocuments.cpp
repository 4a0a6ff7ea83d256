//===- LowerDocuments.cpp - Documents of ranks that have parts of them ----===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention of documents that lie one behind the other, of which a rank has the
// queries of one piece of each row, or two, and all keys. A piece of positions
// `begin` to `end` of a row is one call: of each document the queries that are
// in the piece, and keys. Where queries see no later keys, kernels let the last
// query see the last key (flash_api.cpp: masks end at the bottom right), so a
// document that goes on behind the piece is cut there in two, of which the
// second has keys and no queries. Whose documents are elsewhere have no queries
// either: their keys get gradients of 0 (flash_bwd_kernel.h writes them).
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/analysis/Programs.h"
#include "passes/analysis/TensorOps.h"
#include "passes/plan/PartialAttention.h"

#include "ir/aten/Aten.h"
#include "ir/aten/OpModel.h"

#include <map>

using namespace mlir;
using namespace fsdp;

namespace fsdp {
#define GEN_PASS_DEF_LOWERDOCUMENTS
#include "passes/Passes.h.inc"
} // namespace fsdp

namespace {

/// Where sequences of a call begin among its queries and among its keys.
struct Sequences {
  Value queries, keys;
};

/// Sequences of calls by where documents begin and by piece; the same for all
/// layers.
using KnownSequences = std::map<std::tuple<void *, int64_t, bool>, Sequences>;

class DocumentLowering {
public:
  DocumentLowering(Operation *op, PlacedAttr placed, KnownSequences &known)
      : op(op), ops(op), known(known), group(placed.getGroup()),
        ranks(group.getSize()) {
    for (const aten::BoundTensors &bound : aten::getTensorArguments(op))
      for (Value tensor : bound.tensors)
        if (tensor)
          names.push_back(bound.argument->name);
    balanced = placed.getParts() && placed.getParts().getBalanced();
    length = *findInt("max_k");
    rows = getTensor(get("key")).getDimSize(0) / length;
    piece = length / (ranks * getPieces());
  }

  void run() {
    getName(op).ends_with("_backward") ? runBackward() : runForward();
    op->erase();
  }

private:
  int64_t getPieces() const { return balanced ? 2 : 1; }
  std::optional<int64_t> findInt(StringRef name) const {
    auto number =
        dyn_cast_or_null<IntegerAttr>(aten::getStaticArgument(op, name));
    return number ? std::optional(number.getInt()) : std::nullopt;
  }
  Value get(StringRef name) const {
    return op->getOperand(llvm::find(names, name) - names.begin());
  }

  //===--------------------------------------------------------------------===//
  // Pieces
  //===--------------------------------------------------------------------===//

  /// `value`, whose dim `dim` has the positions of a rank, row by row, with
  /// other dims in place of it.
  Value spread(Value value, int64_t dim, ArrayRef<int64_t> sizes) {
    SmallVector<int64_t> shape(getTensor(value).getShape());
    shape.erase(shape.begin() + dim);
    shape.insert(shape.begin() + dim, sizes.begin(), sizes.end());
    return ops.view(value, shape);
  }

  /// Positions of a rank's own piece, contiguous.
  Value take(Value value, int64_t dim, int64_t own) {
    value = ops.copy(value);
    if (!balanced)
      return value;
    value = spread(value, dim, {rows, getPieces(), piece});
    value = ops.copy(ops.select(value, dim + 1, own));
    return fold(value, dim, 2, rows * piece);
  }

  /// `value` with one dim of `size` in place of `count` dims.
  Value fold(Value value, int64_t dim, int64_t count, int64_t size) {
    SmallVector<int64_t> shape(getTensor(value).getShape());
    shape.erase(shape.begin() + dim, shape.begin() + dim + count);
    shape.insert(shape.begin() + dim, size);
    return ops.view(value, shape);
  }

  Value join(ArrayRef<Value> pieces, int64_t dim) {
    if (!balanced)
      return pieces.front();
    SmallVector<Value> apart;
    for (Value each : pieces)
      apart.push_back(spread(ops.copy(each), dim, {rows, piece}));
    return fold(ops.stack(apart, dim + 1), dim, 3, rows * 2 * piece);
  }

  //===--------------------------------------------------------------------===//
  // Sequences
  //===--------------------------------------------------------------------===//

  /// Of each rank some whole numbers, i32.
  Value choose(ArrayRef<int32_t> ofRanks, int64_t count) {
    Type element = ops.get().getI32Type();
    auto type = RankedTensorType::get({ranks, count}, element);
    Value all =
        ConstantOp::create(ops.get(), ops.getLoc(), type,
                           DenseElementsAttr::get(type, ofRanks), nullptr);
    SmallVector<int64_t> starts;
    for (int64_t rank = 0; rank < ranks; ++rank)
      starts.push_back(rank);
    return ops.view(ops.selectRows(all, 0, starts, 1, group), {count});
  }

  /// Where the piece begins in each row, of each rank.
  int64_t getBegin(int64_t rank, int64_t own) const {
    return piece * (balanced ? getPiece(rank, ranks, own == 1) : rank);
  }

  Value map(StringRef name, Value value, ArrayRef<NamedAttribute> arguments) {
    return ops.make(name, {value}, arguments, getTensor(value));
  }

  /// `bounds` and where the piece ends in each row, in their order.
  Value cutAtEnds(Value bounds, int64_t own) {
    SmallVector<int32_t> ends;
    for (int64_t rank = 0; rank < ranks; ++rank)
      for (int64_t row = 0; row < rows; ++row)
        ends.push_back(int32_t(row * length + getBegin(rank, own) + piece));
    Value all = ops.cat({bounds, choose(ends, rows)}, 0);
    RankedTensorType type = getTensor(all);
    return aten::buildAtenOp(
               ops.get(), ops.getLoc(), "aten.sort", {all}, {},
               {type,
                RankedTensorType::get(type.getShape(), ops.get().getI64Type())})
        ->getResult(0);
  }

  /// Whether queries see no later keys.
  bool endsAtQueries() const {
    auto causal =
        dyn_cast_or_null<BoolAttr>(aten::getStaticArgument(op, "is_causal"));
    return (causal && causal.getValue()) || findInt("window_size_left");
  }

  const Sequences &getSequences(int64_t own) {
    Value bounds = get("cum_seq_q");
    Sequences &found =
        known[{bounds.getAsOpaquePointer(), own, endsAtQueries()}];
    if (found.keys)
      return found;
    found.keys = endsAtQueries() ? cutAtEnds(bounds, own) : bounds;
    SmallVector<int32_t> begins;
    for (int64_t rank = 0; rank < ranks; ++rank)
      begins.push_back(int32_t(getBegin(rank, own)));
    // Rows in front are whole pieces; of its own row what lies in the piece.
    Value place =
        map("aten.remainder.Scalar", found.keys, ops.integer("other", length));
    Value row = map("aten.div.Scalar_mode", found.keys,
                    {ops.integer("other", length),
                     ops.get().getNamedAttr("rounding_mode",
                                            ops.get().getStringAttr("floor"))});
    place = ops.make("aten.sub.Tensor", {place, choose(begins, 1)}, {},
                     getTensor(place));
    place = map("aten.clamp", place,
                {ops.integer("min", 0), ops.integer("max", piece)});
    row = map("aten.mul.Scalar", row, ops.integer("other", piece));
    found.queries = ops.add(row, place);
    return found;
  }

  //===--------------------------------------------------------------------===//
  // Calls
  //===--------------------------------------------------------------------===//

  Operation *call(ArrayRef<std::pair<StringRef, Value>> others, int64_t own) {
    const Sequences &sequences = getSequences(own);
    SmallVector<Value> operands(op->getOperands());
    auto set = [&](StringRef name, Value to) {
      operands[llvm::find(names, name) - names.begin()] = to;
    };
    for (auto [name, value] : others)
      set(name, value);
    set("key", ops.copy(get("key")));
    set("value", ops.copy(get("value")));
    set("cum_seq_q", sequences.queries);
    set("cum_seq_k", sequences.keys);
    bool isBackward = getName(op).ends_with("_backward");
    SmallVector<Type> types(op->getResultTypes());
    for (auto [i, type] : llvm::enumerate(types)) {
      auto tensor = dyn_cast<RankedTensorType>(type);
      if (!tensor || i > (isBackward ? 2u : 1u))
        continue;
      SmallVector<int64_t> shape(tensor.getShape());
      if (i == 0 || !isBackward)
        shape[i == 0 ? 0 : 1] = rows * piece;
      type = RankedTensorType::get(shape, tensor.getElementType());
    }
    NamedAttrList statics(aten::getProperty(op));
    statics.set("max_q", ops.get().getI64IntegerAttr(piece));
    return ops.remake(op, operands, types,
                      statics.getDictionary(op->getContext()));
  }

  void put(unsigned number, Value value) {
    Value result = op->getResult(number);
    result.replaceAllUsesWith(toType(ops, value, getTensor(result)));
  }

  void runForward() {
    SmallVector<Value> outputs, sums;
    Operation *each = nullptr;
    for (int64_t own = 0; own < getPieces(); ++own) {
      each = call({{"query", take(get("query"), 0, own)}}, own);
      outputs.push_back(each->getResult(0));
      sums.push_back(each->getResult(1));
    }
    put(0, join(outputs, 0));
    put(1, join(sums, 1));
    for (unsigned i = 2; i < op->getNumResults(); ++i)
      op->getResult(i).replaceAllUsesWith(each->getResult(i));
  }

  /// Both pieces give of each key's gradient a part, added up in f32.
  void addUp(unsigned number, ArrayRef<Value> parts) {
    if (parts.size() == 1)
      return put(number, parts.front());
    Type element = Float32Type::get(op->getContext());
    put(number,
        ops.add(ops.cast(parts[0], element), ops.cast(parts[1], element)));
  }

  void runBackward() {
    SmallVector<Value> queries, keys, values;
    for (int64_t own = 0; own < getPieces(); ++own) {
      SmallVector<std::pair<StringRef, Value>> others;
      for (StringRef name : {"grad_out", "query", "out"})
        others.push_back({name, take(get(name), 0, own)});
      others.push_back({"logsumexp", take(get("logsumexp"), 1, own)});
      Operation *each = call(others, own);
      queries.push_back(each->getResult(0));
      keys.push_back(each->getResult(1));
      values.push_back(each->getResult(2));
    }
    put(0, join(queries, 0));
    addUp(1, keys);
    addUp(2, values);
  }

  Operation *op;
  TensorOps ops;
  KnownSequences &known;
  GroupAttr group;
  int64_t ranks;
  SmallVector<StringRef> names; ///< of operands
  bool balanced = false;
  int64_t length = 0, rows = 0, piece = 0;
};

/// Whether it is attention that is told where sequences begin.
bool hasDocuments(Operation *op) {
  return getName(op).starts_with("aten._flash_attention_") &&
         llvm::any_of(aten::getTensorArguments(op), [](const auto &bound) {
           return bound.argument->name == "cum_seq_q" && !bound.none;
         });
}

struct LowerDocuments final : fsdp::impl::LowerDocumentsBase<LowerDocuments> {
  void runOnOperation() override {
    for (func::FuncOp program : getPrograms(getOperation())) {
      KnownSequences known;
      for (Operation &op :
           llvm::make_early_inc_range(program.getBody().front()))
        if (auto queries = op.getAttrOfType<PlacedAttr>(kQueriesAttr);
            queries && hasDocuments(&op))
          DocumentLowering(&op, queries, known).run();
    }
  }
};

} // namespace
