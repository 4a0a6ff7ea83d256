//===- StreamOrder.cpp - Is memory reused only after its last use? --------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Time is the position in the block. The last computation to touch a byte is
// kept in a segment tree over the tensors' bounds (assign a range, ask for the
// highest of a range), so that the whole check is O(n log n). Waits count as
// computation: they hold the compute stream until the transfer is done.
//
//===----------------------------------------------------------------------===//

#include "passes/plan/StreamOrder.h"

#include "ir/aten/Aten.h"
#include "passes/analysis/Programs.h"

#include <array>

using namespace mlir;
using namespace fsdp;

namespace {

/// Assigned values never decrease.
class RangeMax {
public:
  explicit RangeMax(size_t count) : count(std::max<size_t>(count, 1)) {
    highest.assign(4 * this->count, -1);
    assigned.assign(4 * this->count, -1);
  }
  void assign(size_t begin, size_t end, int64_t value) {
    if (begin < end)
      assign(1, 0, count, begin, end, value);
  }
  int64_t query(size_t begin, size_t end) const {
    return begin < end ? query(1, 0, count, begin, end) : -1;
  }

private:
  void assign(size_t node, size_t low, size_t high, size_t begin, size_t end,
              int64_t value) {
    highest[node] = std::max(highest[node], value);
    if (begin <= low && high <= end) {
      assigned[node] = value;
      return;
    }
    size_t middle = (low + high) / 2;
    if (begin < middle)
      assign(2 * node, low, middle, begin, end, value);
    if (middle < end)
      assign(2 * node + 1, middle, high, begin, end, value);
  }
  int64_t query(size_t node, size_t low, size_t high, size_t begin,
                size_t end) const {
    if (begin <= low && high <= end)
      return highest[node];
    size_t middle = (low + high) / 2;
    int64_t result = assigned[node];
    if (begin < middle)
      result = std::max(result, query(2 * node, low, middle, begin, end));
    if (middle < end)
      result = std::max(result, query(2 * node + 1, middle, high, begin, end));
    return result;
  }

  size_t count;
  std::vector<int64_t> highest;  ///< in the node's range
  std::vector<int64_t> assigned; ///< to all of the node's range
};

class StreamVerifier {
public:
  StreamVerifier(const Liveness &liveness, ArrayRef<int64_t> addresses)
      : liveness(liveness), addresses(addresses), touched(0) {
    for (auto [index, storage] : llvm::enumerate(liveness.getStorages()))
      if (!liveness.isMerged(index) ||
          liveness.getPart(index).whole != Liveness::kNone) {
        bounds.push_back(addresses[index]);
        bounds.push_back(addresses[index] + storage.bytes);
      }
    llvm::sort(bounds);
    bounds.erase(llvm::unique(bounds), bounds.end());
    touched = RangeMax(bounds.size());
    orderedAfter.fill(-1);
  }

  LogicalResult visit(Operation &op, int64_t now) {
    if (isStart(&op))
      return visitStart(op);
    if (auto wait = dyn_cast<WaitOp>(op)) {
      Operation *start = wait.getFuture().getDefiningOp();
      for (unsigned storage : getBuffers(start))
        touch(storage, now);
    } else if (auto record = dyn_cast<RecordOp>(op)) {
      if (record.getStream() == Stream::Compute)
        recorded[record.getEvent()] = now;
    } else if (auto await = dyn_cast<AwaitOp>(op)) {
      auto it = recorded.find(await.getEvent());
      int64_t &after = orderedAfter[static_cast<size_t>(await.getStream())];
      if (it != recorded.end())
        after = std::max(after, it->second);
    } else if (!isa<FreeOp, ReplayOp, func::ReturnOp>(op)) {
      visitCompute(op, now);
    }
    return success();
  }

private:
  size_t boundOf(int64_t address) const {
    return llvm::lower_bound(bounds, address) - bounds.begin();
  }
  std::pair<size_t, size_t> rangeOf(unsigned storage) const {
    int64_t begin = addresses[storage];
    return {boundOf(begin),
            boundOf(begin + liveness.getStorages()[storage].bytes)};
  }
  void touch(unsigned storage, int64_t now) {
    auto [begin, end] = rangeOf(storage);
    touched.assign(begin, end, now);
  }

  /// Storages that a transfer reads or writes.
  SmallVector<unsigned> getBuffers(Operation *start) const {
    SmallVector<unsigned> buffers(liveness.getPromised(start));
    for (Value input : start->getOperands())
      if (unsigned storage = liveness.getStorage(input);
          storage != Liveness::kNone)
        buffers.push_back(storage);
    return buffers;
  }

  void visitCompute(Operation &op, int64_t now) {
    auto touchAll = [&](ValueRange values) {
      for (Value value : values)
        if (unsigned storage = liveness.getStorage(value);
            storage != Liveness::kNone)
          touch(storage, now);
    };
    // A view reads nothing.
    bool onlyViews = op.getNumResults() != 0 &&
                     llvm::all_of(op.getResults(), [](OpResult result) {
                       return aten::getViewSource(result) != nullptr;
                     });
    if (onlyViews)
      return;
    touchAll(op.getOperands());
    touchAll(op.getResults());
  }

  LogicalResult visitStart(Operation &op) {
    auto stream = op.getAttrOfType<StreamAttr>("stream").getValue();
    int64_t after = orderedAfter[static_cast<size_t>(stream)];
    for (unsigned storage : getBuffers(&op)) {
      auto [begin, end] = rangeOf(storage);
      if (touched.query(begin, end) > after)
        return op.emitOpError("may start before computation that touches the "
                              "memory at ")
               << addresses[storage]
               << " is done; expected 'fsdp.record compute' after it and "
                  "'fsdp.await' on stream "
               << stringifyStream(stream);
    }
    return success();
  }

  const Liveness &liveness;
  ArrayRef<int64_t> addresses;
  std::vector<int64_t> bounds;
  RangeMax touched;
  DenseMap<Value, int64_t> recorded;
  std::array<int64_t, getMaxEnumValForStream() + 1> orderedAfter;
};

} // namespace

LogicalResult fsdp::verifyStreamOrder(func::FuncOp program,
                                      const Liveness &liveness,
                                      ArrayRef<int64_t> addresses) {
  StreamVerifier verifier(liveness, addresses);
  int64_t now = 0;
  for (Operation &op : program.getBody().front())
    if (failed(verifier.visit(op, now++)))
      return failure();
  return success();
}
