//===- BucketCollectives.cpp - One transfer for a bucket -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/Passes.h"
#include "passes/analysis/Float8.h"
#include "passes/analysis/Programs.h"

#include "llvm/ADT/TypeSwitch.h"

#include <map>

using namespace mlir;
using namespace fsdp;

namespace fsdp {
#define GEN_PASS_DEF_BUCKETCOLLECTIVES
#include "passes/Passes.h.inc"
} // namespace fsdp

namespace {

/// What the members of one transfer have in common.
struct BucketKey {
  StringAttr bucket;
  bool again;   // gathered a second time
  Type element; // null: of any
  GroupAttr group;
  Attribute reduction; // null for gathers
  FloatAttr pre, post; // divisors of a sum
  Type sum;            // what it is made in; null for gathers

  bool operator==(const BucketKey &) const = default;
};

template <typename LogicalOp>
struct Member {
  LogicalOp op;
  unsigned state; // its number in the table, which orders members
};

template <typename LogicalOp>
struct Bucket {
  BucketKey key;
  SmallVector<Member<LogicalOp>> members;
};

template <typename LogicalOp>
using Buckets = SmallVector<Bucket<LogicalOp>>;

Type getElement(Value value) {
  return cast<RankedTensorType>(value.getType()).getElementType();
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
    for (Bucket<AllGatherOp> &bucket : sort(gathers))
      if (failed(fuse(bucket, Stream::Gather)))
        return failure();
    for (Bucket<ReduceScatterOp> &bucket : sort(scatters))
      if (failed(fuse(bucket, Stream::Reduce)))
        return failure();
    // They may stand behind the scatters now, whose results they read.
    number();
    if (failed(collectAllReduces()))
      return failure();
    for (Bucket<AllReduceOp> &bucket : sort(allReduces))
      if (failed(fuse(bucket, Stream::Replicate)))
        return failure();
    number();
    // Maxima of a bucket of gradients do not queue behind older buckets.
    for (Bucket<AllReduceOp> &bucket : metrics)
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
      if (!isOfStep(&op))
        continue;
      LogicalResult done =
          llvm::TypeSwitch<Operation *, LogicalResult>(&op)
              .Case([&](AllGatherOp gather) {
                return startAlone(gather, getElement(gather.getFull()), {});
              })
              .Case<ReduceScatterOp, AllReduceOp>([&](auto reduction) {
                return startAlone(reduction,
                                  getElement(reduction->getOperand(0)),
                                  reduction.getReductionAttr());
              })
              .Default(success());
      if (failed(done))
        return failure();
    }
    return success();
  }

  template <typename LogicalOp>
  LogicalResult startAlone(LogicalOp op, Type element, Attribute reduction) {
    Buckets<LogicalOp> alone;
    GroupAttr group = op.getGroup();
    insert(alone, {group.getName(), false, element, group, reduction}, {op, 0});
    return fuse(alone.front(), Stream::Replicate);
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
        done = add(gathers, gather, state, isReplayed(gather.getShard()),
                   element, Attribute());
      } else if (auto reduce = dyn_cast<ReduceScatterOp>(op)) {
        done = add(scatters, reduce, states.lookup(reduce.getOfAttr()), false,
                   getElement(reduce.getFull()), reduce.getReductionAttr());
      }
      if (failed(done))
        return failure();
    }
    return success();
  }

  LogicalResult collectAllReduces() {
    for (auto reduce : func.getOps<AllReduceOp>()) {
      Type element = getElement(reduce.getInput());
      if (reduce.getInput().getDefiningOp<BlockMaximaOp>())
        addMaxima(reduce, kMaximaBucket, element);
      else if (getGreatestOfShard(reduce))
        addMaxima(reduce, kFloat8Bucket, element);
      else if (isWireMaximum(reduce))
        addMaxima(reduce, kWireBucket, element);
      else if (!reduce.getOf())
        insert(metrics,
               {builder.getStringAttr(kMetricsBucket), false, element,
                reduce.getGroup(), reduce.getReductionAttr()},
               {reduce, 0});
      else if (failed(add(allReduces, reduce, states.lookup(reduce.getOfAttr()),
                          false, element, reduce.getReductionAttr())))
        return failure();
    }
    return success();
  }

  /// Together as long as nobody reads what came before.
  void addMaxima(AllReduceOp reduce, StringRef bucket, Type element) {
    BucketKey key{builder.getStringAttr(bucket), false, element,
                  reduce.getGroup(), reduce.getReductionAttr()};
    auto isReadBefore = [&](const Member<AllReduceOp> &member) {
      AllReduceOp op = member.op;
      return llvm::any_of(op->getUsers(), [&](Operation *reader) {
        return positions.lookup(reader) < positionOf(reduce);
      });
    };
    if (!metrics.empty() && metrics.back().key == key &&
        llvm::none_of(metrics.back().members, isReadBefore))
      metrics.back().members.push_back({reduce, 0});
    else
      metrics.push_back({key, {{reduce, 0}}});
  }

  template <typename LogicalOp>
  LogicalResult add(Buckets<LogicalOp> &buckets, LogicalOp op, StateOp state,
                    bool again, Type element, Attribute reduction) {
    if (!state || !state.getBucket())
      return op.emitOpError("expects to move a parameter that has a bucket, or "
                            "its gradient; run fsdp-assign-buckets first");
    insert(buckets,
           {state.getBucketAttr(), again, element, op.getGroup(), reduction},
           {op, states.getIndex(state)});
    return success();
  }

  template <typename LogicalOp>
  void insert(Buckets<LogicalOp> &buckets, BucketKey key,
              Member<LogicalOp> member) {
    if constexpr (!std::is_same_v<LogicalOp, AllGatherOp>) {
      key.pre = member.op.getPreAttr();
      key.post = member.op.getPostAttr();
      key.sum = getElement(member.op->getResult(0));
    }
    // Most ops of a bucket stand close together: the last one is the likeliest.
    auto it = std::find_if(
        buckets.rbegin(), buckets.rend(),
        [&](const Bucket<LogicalOp> &bucket) { return bucket.key == key; });
    if (it != buckets.rend())
      it->members.push_back(member);
    else
      buckets.push_back({key, {member}});
  }

  /// Members in the order of the state table; types other than the one that
  /// comes first in the table get a name of their own.
  template <typename LogicalOp>
  Buckets<LogicalOp> &sort(Buckets<LogicalOp> &buckets) {
    llvm::DenseMap<StringAttr, std::pair<unsigned, Type>> first;
    for (Bucket<LogicalOp> &bucket : buckets) {
      llvm::stable_sort(bucket.members, [](const auto &a, const auto &b) {
        return a.state < b.state;
      });
      std::pair<unsigned, Type> head{bucket.members.front().state,
                                     bucket.key.element};
      auto [it, isNew] = first.try_emplace(bucket.key.bucket, head);
      if (!isNew && head.first < it->second.first)
        it->second = head;
    }
    for (Bucket<LogicalOp> &bucket : buckets) {
      if (bucket.key.element == first.at(bucket.key.bucket).second)
        continue;
      std::string name = bucket.key.bucket.str() + "/";
      llvm::raw_string_ostream(name) << bucket.key.element;
      bucket.key.bucket = builder.getStringAttr(name);
    }
    return buckets;
  }

  unsigned positionOf(Operation *op) const { return positions.at(op); }

  template <typename LogicalOp>
  static auto getOps(const Bucket<LogicalOp> &bucket) {
    return llvm::map_range(bucket.members,
                           [](const auto &member) { return member.op; });
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

  // Gathers stand at the first of them: all readers come after it.
  LogicalResult fuse(const Bucket<AllGatherOp> &bucket, Stream stream) {
    auto ops = getOps(bucket);
    AllGatherOp first = *llvm::min_element(
        ops, [&](auto a, auto b) { return positionOf(a) < positionOf(b); });
    SmallVector<Value> inputs;
    SmallVector<Type> types;
    SmallVector<int64_t> dims;
    for (AllGatherOp op : ops) {
      hoistShardSide(op.getShard(), first, positionOf(first));
      inputs.push_back(op.getShard());
      types.push_back(op.getFull().getType());
      dims.push_back(op.getDim());
    }
    builder.setInsertionPoint(first);
    auto start = AllGatherStartOp::create(
        builder, first.getLoc(), FutureType::get(builder.getContext(), types),
        inputs, dims, bucket.key.group, stream, bucket.key.bucket);
    start.setPartsAttr(first.getPartsAttr()); // of one that stands alone
    finish(bucket, start.getFuture(), types);
    return success();
  }

  // Reductions stand at the last of them: all gradients are computed by then.
  LogicalResult fuse(const Bucket<ReduceScatterOp> &bucket, Stream stream) {
    Operation *last = getLast(bucket);
    SmallVector<Operation *> tails = collectTails(bucket, last);
    if (failed(verifyReaders(bucket, last, tails)))
      return failure();
    SmallVector<Value> inputs;
    SmallVector<Type> types;
    SmallVector<int64_t> dims;
    SmallVector<Attribute> of;
    for (ReduceScatterOp op : getOps(bucket)) {
      inputs.push_back(op.getFull());
      types.push_back(op.getShard().getType());
      dims.push_back(op.getDim());
      if (op.getOf())
        of.push_back(op.getOfAttr());
    }
    builder.setInsertionPoint(last);
    auto start = ReduceScatterStartOp::create(
        builder, last->getLoc(), FutureType::get(builder.getContext(), types),
        inputs, cast<ReductionAttr>(bucket.key.reduction).getValue(), dims,
        getArray(of), bucket.key.group, stream, bucket.key.bucket);
    start.setPartsAttr(cast<ReduceScatterOp>(last).getPartsAttr());
    setDivisors(start, bucket.key);
    finish(bucket, start.getFuture(), types, tails);
    return success();
  }

  LogicalResult fuse(const Bucket<AllReduceOp> &bucket, Stream stream) {
    Operation *last = getLast(bucket);
    SmallVector<Operation *> tails = collectTails(bucket, last);
    if (failed(verifyReaders(bucket, last, tails)))
      return failure();
    SmallVector<Value> inputs;
    SmallVector<Type> types;
    SmallVector<Attribute> of;
    for (AllReduceOp op : getOps(bucket)) {
      inputs.push_back(op.getInput());
      types.push_back(op.getResult().getType());
      if (op.getOf())
        of.push_back(op.getOfAttr());
    }
    builder.setInsertionPoint(last);
    auto start = AllReduceStartOp::create(
        builder, last->getLoc(), FutureType::get(builder.getContext(), types),
        inputs, cast<ReductionAttr>(bucket.key.reduction).getValue(),
        getArray(of), bucket.key.group, stream, bucket.key.bucket);
    setDivisors(start, bucket.key);
    finish(bucket, start.getFuture(), types, tails);
    return success();
  }

  /// Whose gradients are reduced; null if none are.
  ArrayAttr getArray(ArrayRef<Attribute> of) {
    return of.empty() ? ArrayAttr() : builder.getArrayAttr(of);
  }

  static void setDivisors(ReductionOpInterface start, const BucketKey &key) {
    start.setPreAttr(key.pre);
    start.setPostAttr(key.post);
  }

  /// What reads the results in front of `last` and may as well stand behind it,
  /// in order.
  template <typename LogicalOp>
  SmallVector<Operation *> collectTails(const Bucket<LogicalOp> &bucket,
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

  template <typename LogicalOp>
  Operation *getLast(const Bucket<LogicalOp> &bucket) const {
    return *llvm::max_element(getOps(bucket), [&](auto a, auto b) {
      return positionOf(a) < positionOf(b);
    });
  }

  /// A result that is read before the last member is computed cannot wait for
  /// it.
  template <typename LogicalOp>
  LogicalResult verifyReaders(const Bucket<LogicalOp> &bucket, Operation *last,
                              ArrayRef<Operation *> tails) const {
    SmallVector<Operation *> moved(tails);
    for (LogicalOp op : getOps(bucket))
      moved.push_back(op);
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

  template <typename LogicalOp>
  void finish(const Bucket<LogicalOp> &bucket, Value future,
              ArrayRef<Type> types, ArrayRef<Operation *> tails = {}) {
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
  Buckets<AllGatherOp> gathers;
  Buckets<ReduceScatterOp> scatters;
  Buckets<AllReduceOp> allReduces, metrics;
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
