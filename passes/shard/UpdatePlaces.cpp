//===- UpdatePlaces.cpp - Where buckets are updated -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/shard/UpdatePlaces.h"

#include "passes/analysis/Transfers.h"
#include "passes/analysis/Views.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace fsdp;

namespace {

class Places {
public:
  explicit Places(func::FuncOp program) {
    for (Operation &op : program.getBody().front()) {
      positions[&op] = order.size();
      order.push_back(&op);
    }
  }

  SmallVector<UpdatePlace> choose(ArrayRef<UpdatedParameter> params,
                                  size_t lag) {
    llvm::MapVector<StringAttr, Bucket> byName;
    for (auto [i, each] : llvm::enumerate(params)) {
      Bucket &bucket = byName[getBucket(each.state)];
      bucket.members.push_back(i);
      if (Operation *op = each.grad.getDefiningOp())
        bucket.ready = std::max(bucket.ready, positions.at(op));
      bucket.lastRead = std::max(bucket.lastRead, findLastRead(each.param));
    }
    SmallVector<Bucket> buckets =
        llvm::map_to_vector(byName, [](auto &each) { return each.second; });
    llvm::stable_sort(buckets, [](const Bucket &a, const Bucket &b) {
      return a.ready < b.ready;
    });
    SmallVector<UpdatePlace> places;
    unsigned end = order.size() - 1, at = 0;
    for (auto [i, bucket] : llvm::enumerate(buckets)) {
      unsigned next =
          i + lag < buckets.size() ? buckets[i + lag].ready + 1 : end;
      at = std::max({at, next, bucket.lastRead + 1});
      places.push_back({bucket.members, order[std::min(at, end)]});
    }
    return places;
  }

private:
  struct Bucket {
    SmallVector<unsigned> members;
    unsigned ready = 0;    ///< the last gradient's position
    unsigned lastRead = 0; ///< of a parameter
  };

  /// Parameters that are in none form one.
  static StringAttr getBucket(StateOp state) {
    StringAttr bucket = state.getBucketAttr();
    return bucket ? bucket : StringAttr::get(state.getContext());
  }

  /// Also through views and casts; the terminator does not count. A gather
  /// reads until it is waited for, which is where its result is first read.
  unsigned findLastRead(Value value) const {
    unsigned last = 0;
    SmallVector<Value> worklist{value};
    while (!worklist.empty())
      for (Operation *user : worklist.pop_back_val().getUsers()) {
        if (user->hasTrait<OpTrait::IsTerminator>())
          continue;
        last = std::max(last, positions.at(user));
        if (auto gather = dyn_cast<AllGatherOp>(user))
          last = std::max(last, findFirstRead(gather));
        for (OpResult result : user->getResults())
          if (getViewSource(result) || isShardSide(user))
            worklist.push_back(result);
      }
    return last;
  }

  unsigned findFirstRead(AllGatherOp gather) const {
    unsigned first = order.size() - 1;
    for (Operation *user : gather->getUsers())
      first = std::min(first, positions.at(user));
    return first;
  }

  llvm::DenseMap<Operation *, unsigned> positions;
  SmallVector<Operation *> order;
};

} // namespace

SmallVector<UpdatePlace>
fsdp::getUpdatePlaces(func::FuncOp program, ArrayRef<UpdatedParameter> params,
                      size_t lag) {
  return Places(program).choose(params, lag);
}
