//===- BucketCollectives.cpp - One transfer for a bucket -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/Passes.h"
#include "passes/analysis/Encodings.h"
#include "passes/analysis/Outputs.h"
#include "passes/analysis/Programs.h"
#include "passes/analysis/States.h"
#include "passes/analysis/Transfers.h"

using namespace mlir;
using namespace fsdp;

namespace fsdp {
#define GEN_PASS_DEF_BUCKETCOLLECTIVES
#include "passes/Passes.h.inc"
} // namespace fsdp

namespace {

/// Buckets of the greatest values of parameters that are encoded, and of
/// gradients that are for their way.
constexpr llvm::StringLiteral kFloat8Bucket = "float8/maxima";
constexpr llvm::StringLiteral kWireBucket = "wire/maxima";

/// Whether `reduce` is of what ranks have of a parameter.
bool isOfParameter(AllReduceOp reduce) {
  AmaxOp amax = getAmax(reduce);
  return amax && getShardSource(amax.getInput());
}

/// What the members of one transfer have in common.
struct BucketKey {
  StringAttr bucket;
  bool again;   // gathered a second time
  Type element; // null: of any
  Collective kind;
  GroupAttr group;
  Purpose purpose;
  // Of what is combined: how, divisors of a sum, and what it is made in.
  ReductionAttr reduction;
  FloatAttr pre, post;
  Type sum;

  BucketKey(CollectiveOpInterface op, StringAttr bucket, Type element,
            bool again = false);
  bool operator==(const BucketKey &) const = default;
};

struct Member {
  Operation *op;
  unsigned state; // its number in the table, which orders members
};

struct Bucket {
  BucketKey key;
  SmallVector<Member> members;
};

using Buckets = SmallVector<Bucket>;

Type getElement(Value value) {
  return cast<RankedTensorType>(value.getType()).getElementType();
}

BucketKey::BucketKey(CollectiveOpInterface op, StringAttr bucket, Type element,
                     bool again)
    : bucket(bucket), again(again), element(element), kind(op.getKind()),
      group(op.getGroup()), purpose(op.getPurpose()) {
  auto combined = dyn_cast<ReductionOpInterface>(op.getOperation());
  if (!combined)
    return;
  reduction = ReductionAttr::get(op.getContext(), combined.getReduction());
  pre = combined.getPreAttr();
  post = combined.getPostAttr();
  sum = getElement(op->getResult(0));
}

class Bucketer {
public:
  Bucketer(func::FuncOp func, const StateTable &states)
      : func(func), states(states), builder(func.getContext()) {}

  LogicalResult run() {
    number();
    if (failed(startInPlace()))
      return failure();
    number();
    if (failed(collectShards()))
      return failure();
    if (failed(fuseAll(sort(gathers), Stream::Gather)) ||
        failed(fuseAll(sort(scatters), Stream::Reduce)))
      return failure();
    // They may stand behind the scatters now, whose results they read.
    number();
    if (failed(collectAllReduces()) ||
        failed(fuseAll(sort(allReduces), Stream::Replicate)))
      return failure();
    number();
    // Maxima of a bucket of gradients do not queue behind older buckets.
    for (Bucket &bucket : metrics)
      if (failed(fuse(bucket, bucket.key.bucket == kWireBucket
                                  ? Stream::Replicate
                                  : Stream::Reduce)))
        return failure();
    return success();
  }

private:
  void number() {
    positions.clear();
    for (Operation &op : func.getBody().front())
      positions.insert({&op, positions.size() + 1});
  }

  /// What the step of several ranks exchanges is read at once: each a transfer
  /// of its own, where it stands.
  LogicalResult startInPlace() {
    for (Operation &op : llvm::make_early_inc_range(func.getBody().front())) {
      auto collective = dyn_cast<CollectiveOpInterface>(op);
      if (!collective || collective.getPurpose() != Purpose::Step ||
          isa<StartOpInterface>(op))
        continue;
      Value whole = isCombining(collective.getKind()) ? op.getOperand(0)
                                                      : Value(op.getResult(0));
      BucketKey key(collective, collective.getGroup().getName(),
                    getElement(whole));
      if (failed(fuse({key, {{&op, 0}}}, Stream::Replicate)))
        return failure();
    }
    return success();
  }

  LogicalResult collectShards() {
    for (Operation &op : func.getBody().front()) {
      LogicalResult done = success();
      if (auto gather = dyn_cast<AllGatherOp>(op)) {
        BlockArgument source = getShardSource(gather.getShard());
        StateOp state =
            source ? states.lookup(func, source.getArgNumber()) : StateOp();
        // Bytes are gathered, of whatever type, but for copies in one tensor.
        Type element =
            state && state.getCopied() ? getElement(gather.getFull()) : Type();
        done =
            add(gathers, gather, state, element, isReplayed(gather.getShard()));
      } else if (auto reduce = dyn_cast<ReduceScatterOp>(op)) {
        done = add(scatters, reduce, states.lookup(reduce.getOfAttr()),
                   getElement(reduce.getFull()));
      }
      if (failed(done))
        return failure();
    }
    return success();
  }

  LogicalResult collectAllReduces() {
    for (auto reduce : func.getOps<AllReduceOp>()) {
      switch (reduce.getPurpose()) {
      case Purpose::Scale:
        addMaxima(reduce);
        break;
      case Purpose::Metric:
        insert(
            metrics,
            getKey(reduce, isOfNorms(reduce) ? kNormsBucket : kMetricsBucket),
            {reduce, 0});
        break;
      default:
        if (failed(add(allReduces, reduce, states.lookup(reduce.getOfAttr()),
                       getElement(reduce.getInput()))))
          return failure();
      }
    }
    return success();
  }

  /// A vector, of which nothing but the run's report is made.
  static bool isOfNorms(AllReduceOp op) {
    auto type = cast<RankedTensorType>(op.getType());
    return type.getRank() == 1 && isa<FloatType>(type.getElementType());
  }

  BucketKey getKey(AllReduceOp op, StringRef bucket) {
    return {op, builder.getStringAttr(bucket), getElement(op.getInput())};
  }

  /// Together as long as nobody reads what came before.
  void addMaxima(AllReduceOp reduce) {
    BucketKey key = getKey(
        reduce, reduce.getInput().getDefiningOp<BlockMaximaOp>() ? kMaximaBucket
                : isOfParameter(reduce)                          ? kFloat8Bucket
                                                                 : kWireBucket);
    auto isReadBefore = [&](const Member &member) {
      return llvm::any_of(member.op->getUsers(), [&](Operation *reader) {
        return positions.lookup(reader) < positionOf(reduce);
      });
    };
    if (!metrics.empty() && metrics.back().key == key &&
        llvm::none_of(metrics.back().members, isReadBefore))
      metrics.back().members.push_back({reduce, 0});
    else
      metrics.push_back({key, {{reduce, 0}}});
  }

  LogicalResult add(Buckets &buckets, CollectiveOpInterface op, StateOp state,
                    Type element, bool again = false) {
    if (!state || !state.getBucket())
      return op->emitOpError("expects to move a parameter that has a bucket, "
                             "or its gradient; run fsdp-assign-buckets first");
    insert(buckets, {op, state.getBucketAttr(), element, again},
           {op, states.getIndex(state)});
    return success();
  }

  static void insert(Buckets &buckets, const BucketKey &key, Member member) {
    // Most ops of a bucket stand close together: the last one is the likeliest.
    auto it =
        std::find_if(buckets.rbegin(), buckets.rend(),
                     [&](const Bucket &bucket) { return bucket.key == key; });
    if (it != buckets.rend())
      it->members.push_back(member);
    else
      buckets.push_back({key, {member}});
  }

  /// Members in the order of the state table; types other than the one that
  /// comes first in the table get a name of their own.
  Buckets &sort(Buckets &buckets) {
    llvm::DenseMap<StringAttr, std::pair<unsigned, Type>> first;
    for (Bucket &bucket : buckets) {
      llvm::stable_sort(bucket.members, [](const auto &a, const auto &b) {
        return a.state < b.state;
      });
      std::pair<unsigned, Type> head{bucket.members.front().state,
                                     bucket.key.element};
      auto [it, isNew] = first.try_emplace(bucket.key.bucket, head);
      if (!isNew && head.first < it->second.first)
        it->second = head;
    }
    for (Bucket &bucket : buckets) {
      if (bucket.key.element == first.at(bucket.key.bucket).second)
        continue;
      std::string name = bucket.key.bucket.str() + "/";
      llvm::raw_string_ostream(name) << bucket.key.element;
      bucket.key.bucket = builder.getStringAttr(name);
    }
    return buckets;
  }

  unsigned positionOf(Operation *op) const { return positions.at(op); }

  static auto getOps(const Bucket &bucket) {
    return llvm::map_range(bucket.members,
                           [](const Member &member) { return member.op; });
  }

  /// Moves what makes a shard in front of `at`.
  void hoistShardSide(Value shard, Operation *at, unsigned position) {
    Operation *op = shard.getDefiningOp();
    auto it = positions.find(op);
    // What was made since stands in front of its readers.
    if (it == positions.end() || it->second < position)
      return;
    hoistShardSide(op->getOperand(0), at, position);
    op->moveBefore(at);
    positions[op] = position - 1;
  }

  LogicalResult fuseAll(const Buckets &buckets, Stream stream) {
    for (const Bucket &bucket : buckets)
      if (failed(fuse(bucket, stream)))
        return failure();
    return success();
  }

  // What is not combined stands at the first of its members, which all readers
  // come after; what is at the last, when all of them are computed.
  LogicalResult fuse(const Bucket &bucket, Stream stream) {
    const BucketKey &key = bucket.key;
    bool combines = isCombining(key.kind);
    Operation *at = getEnd(bucket, combines);
    SmallVector<Operation *> tails;
    if (combines) {
      tails = collectTails(bucket, at);
      if (failed(verifyReaders(bucket, at, tails)))
        return failure();
    }
    SmallVector<Value> inputs;
    SmallVector<Type> types;
    SmallVector<int64_t> dims;
    SmallVector<Attribute> of;
    for (Operation *op : getOps(bucket)) {
      auto collective = cast<CollectiveOpInterface>(op);
      if (!combines)
        hoistShardSide(op->getOperand(0), at, positionOf(at));
      inputs.push_back(op->getOperand(0));
      types.push_back(op->getResult(0).getType());
      if (movesRows(key.kind))
        dims.push_back(collective.getRowsDim());
      if (Attribute parameter = collective.getGradientOf(0))
        of.push_back(parameter);
    }
    builder.setInsertionPoint(at);
    auto start = StartOp::create(
        builder, at->getLoc(), FutureType::get(builder.getContext(), types),
        inputs, key.kind, key.group, key.purpose, stream, key.bucket);
    start.setCombinationAttr(key.reduction);
    start.setPreAttr(key.pre);
    start.setPostAttr(key.post);
    if (!of.empty())
      start.setOfAttr(builder.getArrayAttr(of));
    if (movesRows(key.kind)) {
      start.setDims(dims);
      // Of one that stands alone.
      start.setPartsAttr(cast<CollectiveOpInterface>(at).getPartsAttr());
    }
    finish(bucket, start.getFuture(), types, tails);
    return success();
  }

  /// What reads the results in front of `last` and may as well stand behind it,
  /// in order.
  SmallVector<Operation *> collectTails(const Bucket &bucket,
                                        Operation *last) const {
    auto ops = llvm::to_vector_of<Operation *>(getOps(bucket));
    SmallVector<Operation *> tails =
        collectReaders(ops, [&](Operation *reader) {
          auto it = positions.find(reader);
          return it != positions.end() && it->second < positionOf(last) &&
                 isReductionTail(reader);
        });
    llvm::sort(tails, [&](Operation *a, Operation *b) {
      return positionOf(a) < positionOf(b);
    });
    return tails;
  }

  /// The member that stands last, or first.
  Operation *getEnd(const Bucket &bucket, bool isLast) const {
    return *llvm::max_element(getOps(bucket), [&](auto a, auto b) {
      return isLast ? positionOf(a) < positionOf(b)
                    : positionOf(b) < positionOf(a);
    });
  }

  /// A result that is read before the last member is computed cannot wait for
  /// it.
  LogicalResult verifyReaders(const Bucket &bucket, Operation *last,
                              ArrayRef<Operation *> tails) const {
    SmallVector<Operation *> moved(tails);
    llvm::append_range(moved, getOps(bucket));
    for (Operation *op : moved)
      for (Operation *reader : op->getUsers())
        if (auto it = positions.find(reader);
            it != positions.end() && it->second < positionOf(last) &&
            !llvm::is_contained(tails, reader)) {
          InFlightDiagnostic diagnostic =
              op->emitOpError("is read before all members of its bucket '")
              << bucket.key.bucket.getValue() << "' are computed";
          diagnostic.attachNote(reader->getLoc()) << "read here";
          diagnostic.attachNote(last->getLoc()) << "the last member";
          return diagnostic;
        }
    return success();
  }

  void finish(const Bucket &bucket, Value future, ArrayRef<Type> types,
              ArrayRef<Operation *> tails) {
    auto wait = WaitOp::create(builder, future.getLoc(), types, future);
    Operation *end = wait;
    for (Operation *tail : tails) {
      tail->moveAfter(end);
      end = tail;
    }
    for (auto [op, result] : llvm::zip(getOps(bucket), wait.getResults())) {
      op->getResult(0).replaceAllUsesWith(result);
      op->erase();
    }
  }

  func::FuncOp func;
  const StateTable &states;
  OpBuilder builder;
  llvm::DenseMap<Operation *, unsigned> positions;
  Buckets gathers, scatters, allReduces, metrics;
};

struct BucketCollectives final
    : fsdp::impl::BucketCollectivesBase<BucketCollectives> {
  void runOnOperation() override {
    StateTable states(getOperation());
    for (func::FuncOp func : getPrograms(getOperation()))
      if (failed(Bucketer(func, states).run()))
        return signalPassFailure();
  }
};

} // namespace
