//===- LowerWindows.cpp - Windows of ranks that have parts of a sequence --===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A query sees itself and `window` positions in front of it. So a piece of the
// sequence of `piece` positions reads itself, and the end of what is in front:
// in calls of as many keys as queries, chunk c, the c-th piece in front, lets
// query i see keys from i + c piece - window on. Where `window` is no longer
// than a piece, only the piece in front counts, whose last `window` rows its
// rank passes on:
//
//   piece r, of rank r - 1                            one rotation,
//   piece 2 n - 1 - r (balanced), of rank r + 1       back,
//                              and of rank n - 1      its own early piece.
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/analysis/Programs.h"
#include "passes/plan/Neighbours.h"
#include "passes/plan/PartialAttention.h"
#include "passes/plan/WindowCalls.h"

#include "ir/aten/Aten.h"

#include <limits>

using namespace mlir;
using namespace fsdp;

namespace fsdp {
#define GEN_PASS_DEF_LOWERWINDOWS
#include "passes/Passes.h.inc"
} // namespace fsdp

namespace {

constexpr int64_t kTokens = WindowCalls::kTokens,
                  kSumTokens = WindowCalls::kSumTokens;

std::optional<int64_t> findInt(Operation *op, StringRef name) {
  auto number =
      dyn_cast_or_null<IntegerAttr>(aten::getStaticArgument(op, name));
  return number ? std::optional(number.getInt()) : std::nullopt;
}

bool isWindow(Operation *op) {
  return getName(op).starts_with("aten._flash_attention_") &&
         getTensor(op->getResult(0)).getRank() == 4 &&
         findInt(op, "window_size_right") == 0 &&
         findInt(op, "window_size_left").value_or(-1) >= 0;
}

class WindowLowering {
  using Partial = WindowCalls::Partial;
  using Gradients = WindowCalls::Gradients;
  using Future = Neighbours::Future;

public:
  /// With `placed` null a rank has all. Nothing is moved in front of
  /// `previous`, which may be null.
  WindowLowering(Operation *op, PlacedAttr placed, bool passesOn, bool isOnCpu,
                 Operation *previous)
      : op(op), previous(previous), ops(op), calls(op, ops, isOnCpu),
        passesOn(passesOn), window(*findInt(op, "window_size_left")) {
    if (placed) {
      group = placed.getGroup();
      ranks = group.getSize();
      balanced = placed.getParts() && placed.getParts().getBalanced();
      neighbours.emplace(ops, group, kTokens);
    }
    piece = getTensor(calls.get("query")).getDimSize(kTokens) / getPieces();
  }

  /// The last op that it makes.
  Operation *run() {
    if (passesOn && window > 0)
      passKeysOn();
    calls.isBackward() ? runBackward() : runForward();
    Operation *last = op->getPrevNode();
    op->erase();
    return last;
  }

private:
  int64_t getPieces() const { return balanced ? 2 : 1; }
  /// The number of a rank's own piece in the sequence.
  int64_t getNumber(int64_t rank, int64_t own) const {
    return balanced ? getPiece(rank, ranks, own == 1) : rank;
  }

  template <typename Number>
  SmallVector<int64_t> forEachRank(Number &&number) const {
    SmallVector<int64_t> numbers;
    for (int64_t rank = 0; rank < ranks; ++rank)
      numbers.push_back(number(rank));
    return numbers;
  }

  /// A number of each rank's, f32: a tensor of one element.
  template <typename Number>
  Value choose(Number &&number) {
    Type element = Float32Type::get(op->getContext());
    auto type = RankedTensorType::get({ranks}, element);
    SmallVector<Attribute> values;
    for (int64_t rank = 0; rank < ranks; ++rank)
      values.push_back(FloatAttr::get(element, double(number(rank))));
    Value all =
        ConstantOp::create(ops.get(), ops.getLoc(), type,
                           DenseElementsAttr::get(type, values), nullptr);
    return ops.selectRows(
        all, 0, forEachRank([](int64_t rank) { return rank; }), 1, group);
  }

  Value multiply(Value value, Value factor) {
    return ops.make("aten.mul.Tensor", {value, factor}, {}, getTensor(value));
  }

  //===--------------------------------------------------------------------===//
  // Transfers
  //===--------------------------------------------------------------------===//

  /// Starts to pass the ends of own pieces on, as soon as there are keys and
  /// values, and behind what was computed in windows before.
  void passKeysOn() {
    Operation *behind = previous;
    for (StringRef name : {"key", "value"}) {
      Operation *made = calls.get(name).getDefiningOp();
      if (made && (!behind || behind->isBeforeInBlock(made)))
        behind = made;
    }
    ops.moveTo(behind ? behind->getNextNode() : &op->getBlock()->front());
    auto ends = [&](int64_t own) {
      int64_t end = (own + 1) * piece;
      return SmallVector<Value>{
          calls.take(calls.get("key"), kTokens, end - window, end),
          calls.take(calls.get("value"), kTokens, end - window, end)};
    };
    ownEnds = ends(0);
    onTheWay.push_back(neighbours->startOn(ownEnds));
    if (balanced)
      onTheWay.push_back(neighbours->startBack(ends(1)));
    ops.moveTo(op);
  }

  //===--------------------------------------------------------------------===//
  // Keys
  //===--------------------------------------------------------------------===//

  /// Keys in front of a piece, that its first queries see.
  struct Chunk {
    int64_t before; ///< how many pieces in front
    int64_t rows;   ///< of keys, the last of that piece, and of queries
    Band band;
    /// Ranks whose piece has one so far in front.
    SmallVector<int64_t> seen;

    bool isSeenByAll() const {
      return llvm::all_of(seen, [](int64_t is) { return is != 0; });
    }
  };

  SmallVector<Chunk> listChunks(int64_t own) const {
    SmallVector<Chunk> chunks;
    int64_t all = ranks * getPieces();
    for (int64_t before = 1; before < all && (before - 1) * piece < window;
         ++before) {
      int64_t beyond = window - before * piece; // its first key
      Chunk chunk{before,
                  beyond >= 0 ? piece : window - (before - 1) * piece,
                  {},
                  forEachRank([&](int64_t rank) {
                    return int64_t(getNumber(rank, own) >= before);
                  })};
      if (beyond < piece - 1)
        chunk.band.left = std::max<int64_t>(beyond, 0);
      if (llvm::is_contained(chunk.seen, 1))
        chunks.push_back(chunk);
    }
    return chunks;
  }

  /// Where a chunk begins in the sequence; anywhere for ranks that don't see
  /// it.
  SmallVector<int64_t> getBegins(const Chunk &chunk, int64_t own) const {
    return forEachRank([&](int64_t rank) {
      int64_t number = getNumber(rank, own) - chunk.before;
      return (std::max<int64_t>(number, 0) + 1) * piece - chunk.rows;
    });
  }
  SmallVector<int64_t> getOwnBegins(int64_t own) const {
    return forEachRank(
        [&](int64_t rank) { return getNumber(rank, own) * piece; });
  }

  using KeysAndValues = std::pair<Value, Value>;

  KeysAndValues getOwn(int64_t own) {
    auto get = [&](StringRef name) {
      Value all = calls.get(name);
      if (passesOn || !group)
        return calls.take(all, kTokens, own * piece, (own + 1) * piece);
      return ops.selectRows(ops.copy(all), kTokens, getOwnBegins(own), piece,
                            group);
    };
    return {get("key"), get("value")};
  }

  KeysAndValues getKeys(const Chunk &chunk, int64_t own) {
    if (!passesOn) {
      auto get = [&](StringRef name) {
        return ops.selectRows(ops.copy(calls.get(name)), kTokens,
                              getBegins(chunk, own), chunk.rows, group);
      };
      return {get("key"), get("value")};
    }
    if (own == 0) {
      SmallVector<Value> came = neighbours->await(onTheWay[0]);
      return {came[0], came[1]};
    }
    SmallVector<Value> came = neighbours->finishBack(onTheWay[1]);
    for (auto [each, end] : llvm::zip(came, ownEnds))
      each = ops.selectRows(ops.cat({each, end}, kTokens), kTokens,
                            forEachRank([&](int64_t rank) {
                              return rank + 1 == ranks ? window : 0;
                            }),
                            window, group);
    return {came[0], came[1]};
  }

  Band getOwnBand() const {
    return {window < piece - 1 ? std::optional(window) : std::nullopt, 0};
  }

  //===--------------------------------------------------------------------===//
  // Forward
  //===--------------------------------------------------------------------===//

  Value scale(const Partial &part, Value all) {
    RankedTensorType type = getTensor(all);
    Value share = ops.make(
        "aten.exp", {ops.make("aten.sub.Tensor", {part.sum, all}, {}, type)},
        {}, type);
    share = ops.copy(buildPermute(ops.get(), ops.getLoc(), share, {0, 2, 1}));
    return multiply(part.output,
                    ops.view(share, joinSizes(getTensor(share).getShape(), 1)));
  }

  /// What the chunk makes of the first queries put into what others made of
  /// all.
  Partial merge(const Partial &all, Partial first, const Chunk &chunk) {
    // Who has no such chunk computed with the keys of another one.
    if (!chunk.isSeenByAll())
      first.sum =
          ops.add(first.sum, choose([&](int64_t rank) {
                    return chunk.seen[rank]
                               ? 0
                               : -std::numeric_limits<double>::infinity();
                  }));
    Partial own{calls.take(all.output, kTokens, 0, chunk.rows),
                calls.take(all.sum, kSumTokens, 0, chunk.rows)};
    Value sum = ops.make("aten.logaddexp", {own.sum, first.sum}, {},
                         getTensor(own.sum));
    Value output = ops.add(scale(own, sum), scale(first, sum));
    if (chunk.rows == piece)
      return {output, sum};
    return {
        ops.cat({output, calls.take(all.output, kTokens, chunk.rows, piece)},
                kTokens),
        ops.cat({sum, calls.take(all.sum, kSumTokens, chunk.rows, piece)},
                kSumTokens)};
  }

  void runForward() {
    SmallVector<Value> queries;
    SmallVector<Partial> parts;
    // While ends are on their way.
    for (int64_t own = 0; own < getPieces(); ++own) {
      queries.push_back(calls.take(calls.get("query"), kTokens, own * piece,
                                   (own + 1) * piece));
      auto [key, value] = getOwn(own);
      parts.push_back(calls.attend(queries[own], key, value, getOwnBand()));
    }
    for (int64_t own = 0; own < getPieces(); ++own)
      for (const Chunk &chunk : listChunks(own)) {
        auto [key, value] = getKeys(chunk, own);
        Value first = calls.take(queries[own], kTokens, 0, chunk.rows);
        parts[own] = merge(parts[own],
                           calls.attend(first, key, value, chunk.band), chunk);
      }
    bool isOne = parts.size() == 1;
    Value output = isOne ? parts[0].output
                         : ops.cat({parts[0].output, parts[1].output}, kTokens);
    Value sum = isOne ? parts[0].sum
                      : ops.cat({parts[0].sum, parts[1].sum}, kSumTokens);
    put(0, output);
    put(1, sum);
    for (unsigned i = 2; i < op->getNumResults(); ++i)
      if (!op->getResult(i).use_empty())
        op->getResult(i).replaceAllUsesWith(makeState(i));
  }

  /// What generators of dropout leave, which no call reads.
  Value makeState(unsigned number) {
    RankedTensorType type = getTensor(op->getResult(number));
    Attribute zero = ops.get().getZeroAttr(type);
    return ConstantOp::create(ops.get(), ops.getLoc(), type,
                              cast<ElementsAttr>(zero), nullptr);
  }

  void put(unsigned number, Value value) {
    Value result = op->getResult(number);
    result.replaceAllUsesWith(toType(ops, value, getTensor(result)));
  }

  //===--------------------------------------------------------------------===//
  // Backward
  //===--------------------------------------------------------------------===//

  Value zeros(Value like, int64_t tokens) {
    SmallVector<int64_t> shape(getTensor(like).getShape());
    shape[kTokens] = tokens;
    return ops.fill(ops.get().getF64FloatAttr(0), shape,
                    getTensor(like).getElementType());
  }

  /// Rows of the sequence, which begin elsewhere on each rank, among zeros.
  Value place(Value rows, ArrayRef<int64_t> begins) {
    int64_t length = ranks * getPieces() * piece,
            rest = length - getTensor(rows).getDimSize(kTokens);
    Value none = zeros(rows, rest);
    SmallVector<int64_t> starts = llvm::map_to_vector(
        begins, [&](int64_t begin) { return rest - begin; });
    return ops.selectRows(ops.cat({none, rows, none}, kTokens), kTokens, starts,
                          length, group);
  }

  WindowCalls::OfQueries getQueries(int64_t own, int64_t rows) {
    int64_t begin = own * piece;
    auto take = [&](StringRef name, int64_t dim) {
      return calls.take(calls.get(name), dim, begin, begin + rows);
    };
    return {take("grad_out", kTokens), take("query", kTokens),
            take("out", kTokens), take("logsumexp", kSumTokens)};
  }

  Gradients differentiate(const Chunk &chunk, int64_t own) {
    auto [key, value] = getKeys(chunk, own);
    WindowCalls::OfQueries of = getQueries(own, chunk.rows);
    // A sum beside which no key has weight.
    constexpr double kAll = 1e30;
    if (!chunk.isSeenByAll())
      of.sum = ops.add(of.sum, choose([&](int64_t rank) {
                         return chunk.seen[rank] ? 0 : kAll;
                       }));
    return calls.differentiate(of, key, value, chunk.band);
  }

  void add(Value &sum, Value part) { sum = sum ? ops.add(sum, part) : part; }

  void runBackward() {
    SmallVector<SmallVector<Gradients>> ofChunks(getPieces());
    SmallVector<Future> back;
    for (int64_t own = 0; own < getPieces(); ++own) {
      for (const Chunk &chunk : listChunks(own))
        ofChunks[own].push_back(differentiate(chunk, own));
      if (passesOn && !ofChunks[own].empty())
        back.push_back(sendBack(ofChunks[own].front(), own));
    }
    // While these are on their way.
    SmallVector<Value> queries;
    SmallVector<Gradients> ofOwn;
    for (int64_t own = 0; own < getPieces(); ++own) {
      auto [key, value] = getOwn(own);
      Gradients each =
          calls.differentiate(getQueries(own, piece), key, value, getOwnBand());
      for (const Gradients &chunk : ofChunks[own])
        each.query = calls.addRows(each.query, chunk.query, 0);
      queries.push_back(each.query);
      ofOwn.push_back(each);
    }
    put(0, join(queries));
    if (passesOn || !group)
      putParts(ofOwn, ofChunks, back);
    else
      putSummands(ofOwn, ofChunks);
  }

  Value join(ArrayRef<Value> pieces) {
    return pieces.size() == 1 ? pieces.front() : ops.cat(pieces, kTokens);
  }

  /// In the type that gradients leave in: they are rounded once before they are
  /// added to their owner's, as those that are scattered.
  Future sendBack(const Gradients &chunk, int64_t own) {
    Type element = getTensor(op->getResult(1)).getElementType();
    Value tensors[] = {ops.cast(chunk.key, element),
                       ops.cast(chunk.value, element)};
    return own == 0 ? neighbours->startBack(tensors)
                    : neighbours->startOn(tensors);
  }

  void putParts(ArrayRef<Gradients> ofOwn,
                ArrayRef<SmallVector<Gradients>> ofChunks,
                ArrayRef<Future> back) {
    SmallVector<Value> keys, values;
    for (const Gradients &each : ofOwn) {
      keys.push_back(each.key);
      values.push_back(each.value);
    }
    Type element = Float32Type::get(op->getContext());
    auto addEnds = [&](int64_t own, Value key, Value value) {
      keys[own] =
          calls.addRows(keys[own], ops.cast(key, element), piece - window);
      values[own] =
          calls.addRows(values[own], ops.cast(value, element), piece - window);
    };
    // From the rank behind. The last one has what the first has of no piece:
    // zeros.
    if (!back.empty()) {
      SmallVector<Value> came = neighbours->finishBack(back[0]);
      addEnds(0, came[0], came[1]);
    }
    if (back.size() > 1) {
      // The last rank's late piece follows its early one.
      Value isLast =
          choose([&](int64_t rank) { return rank + 1 == ranks ? 1 : 0; });
      const Gradients &late = ofChunks[1].front();
      addEnds(0, multiply(late.key, isLast), multiply(late.value, isLast));
      SmallVector<Value> came = neighbours->await(back[1]);
      Value isNext = choose([](int64_t rank) { return rank > 0 ? 1 : 0; });
      addEnds(1, multiply(ops.cast(came[0], element), isNext),
              multiply(ops.cast(came[1], element), isNext));
    }
    put(1, join(keys));
    put(2, join(values));
  }

  void putSummands(ArrayRef<Gradients> ofOwn,
                   ArrayRef<SmallVector<Gradients>> ofChunks) {
    Value keys, values;
    auto addAt = [&](const Gradients &each, ArrayRef<int64_t> begins) {
      add(keys, place(each.key, begins));
      add(values, place(each.value, begins));
    };
    for (int64_t own = 0; own < getPieces(); ++own) {
      addAt(ofOwn[own], getOwnBegins(own));
      for (auto [chunk, each] : llvm::zip_equal(listChunks(own), ofChunks[own]))
        addAt(each, getBegins(chunk, own));
    }
    put(1, keys);
    put(2, values);
  }

  Operation *op, *previous;
  TensorOps ops;
  WindowCalls calls;
  bool passesOn, balanced = false;
  int64_t window, ranks = 1, piece = 0;
  GroupAttr group;
  std::optional<Neighbours> neighbours;
  SmallVector<Value> ownEnds; ///< of the early piece: keys, values
  SmallVector<Future> onTheWay;
};

struct LowerWindows final : fsdp::impl::LowerWindowsBase<LowerWindows> {
  void runOnOperation() override {
    bool isOnCpu = getDevice(getOperation()).starts_with("cpu");
    for (func::FuncOp program : getPrograms(getOperation())) {
      SmallVector<Operation *> found;
      for (Operation &op : program.getBody().front())
        if (isWindow(&op))
          found.push_back(&op);
      Operation *previous = nullptr;
      for (Operation *op : found) {
        auto ring = op->getAttrOfType<PlacedAttr>(kRingAttr);
        auto queries = op->getAttrOfType<PlacedAttr>(kQueriesAttr);
        if (ring || queries || isOnCpu)
          previous = WindowLowering(op, ring ? ring : queries, bool(ring),
                                    isOnCpu, previous)
                         .run();
      }
    }
  }
};

} // namespace
