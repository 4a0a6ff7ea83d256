//===- PullProducers.cpp - Compute again what backward reads --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Backward reads what forward left: the f32 copy of a norm's input, what a gate
// gave. In a kernel these cost nothing to compute again, if their operands are
// there, and then need not be kept.
//
//===----------------------------------------------------------------------===//

#include "passes/kernels/PullProducers.h"

#include "ir/aten/Aten.h"
#include "passes/analysis/Liveness.h"
#include "passes/analysis/Views.h"
#include "passes/kernels/Disturbed.h"
#include "passes/kernels/Groups.h"
#include "passes/kernels/Program.h"
#include "plan/Kernels.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace fsdp;

namespace {

/// Ops between an operator and who reads it, from which on that one is far.
constexpr int64_t kFar = 48;
/// Operators that are computed again for one result.
constexpr size_t kMostOps = 8;

/// What is computed again, and what that keeps alive.
struct Chain {
  SmallVector<Operation *> ops; ///< the last one first
  SmallVector<unsigned> kept;   ///< storages, beyond their last readers so far
  int64_t bytes = 0;            ///< of these
};

/// A reader of a result, and the views in front of it, the nearest to it first.
struct Reading {
  OpOperand *operand;
  SmallVector<Operation *> views;

  Operation *reader() const { return operand->getOwner(); }
};

class Puller {
public:
  explicit Puller(func::FuncOp program) : program(program), liveness(program) {
    for (Operation &op : program.getBody().front())
      positions[&op] = static_cast<int64_t>(positions.size());
    for (const Storage &storage : liveness.getStorages())
      last.push_back(storage.last);
    for (Operation &op : program.getBody().front())
      for (Value value : listDisturbed(&op))
        if (unsigned index = liveness.getStorage(value);
            index != Liveness::kNone)
          events[index].push_back(at(&op));
  }

  SmallVector<PulledResult> run();

private:
  bool isPointwise(Operation *op);
  bool isNear(Operation *op, Operation *reader) const;
  bool isWorth(OpResult result, const Chain &chain) const;
  SmallVector<Reading> takeFar(Operation *op, int64_t &near) const;
  bool isDisturbed(Value value, Operation *reader, int64_t time) const;
  bool isThere(Value value, int64_t time) const;
  bool keep(Chain &chain, Value value) const;
  std::optional<Chain> findChain(Operation *op, int64_t time);
  void pull(OpResult result, ArrayRef<Reading> readings, const Chain &chain);
  int64_t at(Operation *op) const { return positions.lookup(op); }

  func::FuncOp program;
  Liveness liveness;
  DenseMap<Operation *, int64_t> positions;
  SmallVector<int64_t, 0> last; ///< by storage: its last reader, as things are
  /// By storage: where it is freed, or changed by what is no operator.
  DenseMap<unsigned, SmallVector<int64_t, 2>> events;
  DenseMap<Operation *, bool> pointwise;
  SmallVector<PulledResult> pulled;
};

} // namespace

/// Whether kernels compute each element of the only result from elements, and
/// not from rows.
bool Puller::isPointwise(Operation *op) {
  auto [it, isNew] = pointwise.try_emplace(op, false);
  if (!isNew || op->getNumResults() != 1 || !isKernelOp(op))
    return it->second;
  std::optional<KernelOfOps> kernel = buildKernel(op, op->getResult(0));
  bool is = kernel && llvm::none_of(kernel->program.ops, [](const auto &each) {
              KernelOpKind kind = kindOf(*each);
              return kind == KernelOpKind::sum_columns ||
                     kind == KernelOpKind::max_columns ||
                     kind == KernelOpKind::sum_rows;
            });
  return pointwise[op] = is;
}

/// What is large and made of what has half the bytes, by rows: computed again
/// wherever its gradient is.
static bool isSoftmax(Operation *op) {
  StringRef name = op->getName().getStringRef();
  return (name == "aten._log_softmax" || name == "aten._softmax") &&
         isKernelOp(op);
}

bool Puller::isNear(Operation *op, Operation *reader) const {
  return isSoftmax(op) ? !reader->getName().getStringRef().contains("_backward")
                       : at(reader) - at(op) < kFar;
}

/// Whether less memory is held; where rows are read again, half of it.
bool Puller::isWorth(OpResult result, const Chain &chain) const {
  int64_t bytes = liveness.getStorages()[liveness.getStorage(result)].bytes;
  return isSoftmax(result.getOwner()) ? 2 * chain.bytes <= bytes
                                      : chain.bytes < bytes;
}

/// All readers of `value`, which is a view, by `views`, of a result.
static void findReadings(Value value, ArrayRef<Operation *> views,
                         SmallVectorImpl<Reading> &readings) {
  for (OpOperand &use : value.getUses()) {
    Operation *user = use.getOwner();
    if (isView(user)) {
      SmallVector<Operation *> more{user};
      llvm::append_range(more, views);
      findReadings(user->getResult(0), more, readings);
    } else {
      readings.push_back({&use, SmallVector<Operation *>(views)});
    }
  }
}

/// What reads `op` far behind it, in order, and where it is read last before;
/// none if some of that is no operator of a kernel.
SmallVector<Reading> Puller::takeFar(Operation *op, int64_t &near) const {
  SmallVector<Reading> all, far;
  findReadings(op->getResult(0), {}, all);
  near = at(op);
  for (const Reading &reading : all) {
    if (isNear(op, reading.reader())) {
      near = std::max(near, at(reading.reader()));
      continue;
    }
    if (!isKernelOp(reading.reader()) ||
        !llvm::all_of(reading.views, isKernelView))
      return {};
    far.push_back(reading);
  }
  llvm::sort(far, [&](const Reading &a, const Reading &b) {
    return at(a.reader()) < at(b.reader());
  });
  return far;
}

/// Whether `value`, as `reader` reads it, is gone by `time`.
bool Puller::isDisturbed(Value value, Operation *reader, int64_t time) const {
  unsigned index = liveness.getStorage(value);
  if (index == Liveness::kNone)
    return false; // a constant
  auto it = events.find(index);
  return it != events.end() && llvm::any_of(it->second, [&](int64_t event) {
           return event > at(reader) && event < time;
         });
}

/// Whether what `value` lies in lives until `time` in any case.
bool Puller::isThere(Value value, int64_t time) const {
  unsigned index = liveness.getStorage(value);
  if (index == Liveness::kNone)
    return value.getDefiningOp<ConstantOp>() != nullptr;
  const Storage &storage = liveness.getStorages()[index];
  return storage.kind == StorageKind::State ||
         storage.kind == StorageKind::Input || last[index] >= time;
}

/// Keeps `value`, which is not there, until the chain is computed again.
bool Puller::keep(Chain &chain, Value value) const {
  unsigned index = liveness.getStorage(value);
  if (index == Liveness::kNone)
    return false;
  const Storage &storage = liveness.getStorages()[index];
  // Parameters that are gathered are freed, and gathered again.
  if (storage.kind != StorageKind::Activation || liveness.isMerged(index))
    return false;
  if (!llvm::is_contained(chain.kept, index)) {
    chain.kept.push_back(index);
    chain.bytes += storage.bytes;
  }
  return true;
}

std::optional<Chain> Puller::findChain(Operation *op, int64_t time) {
  Chain chain;
  SmallVector<Operation *> open{op};
  while (!open.empty()) {
    Operation *next = open.pop_back_val();
    if (llvm::is_contained(chain.ops, next))
      continue;
    chain.ops.push_back(next);
    if (chain.ops.size() > kMostOps)
      return std::nullopt;
    for (Value operand : next->getOperands()) {
      if (isDisturbed(operand, next, time))
        return std::nullopt;
      if (isThere(operand, time))
        continue;
      Operation *maker = operand.getDefiningOp();
      bool isSmaller =
          aten::getStorageBytes(cast<RankedTensorType>(operand.getType())) <
          aten::getStorageBytes(
              cast<RankedTensorType>(op->getResult(0).getType()));
      if (maker && !isSmaller && (isPointwise(maker) || isKernelView(maker)))
        open.push_back(maker);
      else if (!keep(chain, operand))
        return std::nullopt;
    }
  }
  llvm::sort(chain.ops,
             [&](Operation *a, Operation *b) { return at(a) > at(b); });
  return chain;
}

/// In front of each reader on its own: in one kernel, equal operations are one.
void Puller::pull(OpResult result, ArrayRef<Reading> readings,
                  const Chain &chain) {
  int64_t until = at(readings.back().reader());
  for (unsigned index : chain.kept)
    last[index] = std::max(last[index], until);
  for (const Reading &reading : readings) {
    OpBuilder builder(reading.reader());
    int64_t now = at(reading.reader());
    IRMapping mapping;
    SmallVector<Operation *> copies;
    auto copy = [&](Operation *op) {
      Operation *made = builder.clone(*op, mapping);
      positions[made] = now;
      return made;
    };
    for (Operation *op : llvm::reverse(chain.ops)) {
      copies.push_back(copy(op));
      if (isSoftmax(result.getOwner()))
        copies.back()->setAttr(kAgainAttr, builder.getUnitAttr());
    }
    for (Operation *view : llvm::reverse(reading.views))
      copy(view);
    pulled.push_back({result, mapping.lookup(result), copies});
    reading.operand->set(mapping.lookup(reading.operand->get()));
  }
}

SmallVector<PulledResult> Puller::run() {
  SmallVector<Operation *> ops;
  for (Operation &op : program.getBody().front())
    ops.push_back(&op);
  for (Operation *op : ops) {
    if (!isPointwise(op) && !isSoftmax(op))
      continue;
    OpResult result = op->getResult(0);
    unsigned index = liveness.getStorage(result);
    if (index == Liveness::kNone || liveness.isMerged(index) ||
        liveness.getStorages()[index].value != result)
      continue;
    int64_t near = 0;
    SmallVector<Reading> far = takeFar(op, near);
    if (far.empty())
      continue;
    std::optional<Chain> chain = findChain(op, at(far.back().reader()));
    if (!chain || !isWorth(result, *chain))
      continue;
    pull(result, far, *chain);
    last[index] = near;
  }
  return pulled;
}

SmallVector<PulledResult> fsdp::pullProducers(func::FuncOp program) {
  return Puller(program).run();
}

void fsdp::pushBack(const PulledResult &pulled) {
  Value(pulled.copy).replaceAllUsesWith(pulled.original);
}

void fsdp::dropUnread(func::FuncOp program) {
  for (Operation &op :
       llvm::make_early_inc_range(llvm::reverse(program.getBody().front())))
    if (op.use_empty() && (isKernelOp(&op) || isKernelView(&op)))
      op.erase();
}
