//===- SecondLife.cpp - What backward reads of a parameter ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/analysis/SecondLife.h"

#include "ir/aten/Matchers.h"
#include "ir/fsdp/Fsdp.h"
#include "passes/analysis/Views.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace fsdp;

/// Views, and copies as large as the tensor itself, are made again; what
/// mixes in an activation is kept.
static bool isDerived(OpResult result) {
  Operation *op = result.getOwner();
  return aten::isCast(op) || aten::isClone(op) || isa<EncodeOp>(op);
}

namespace {
class SecondLife {
public:
  using Again = llvm::function_ref<Value(OpBuilder &, Operation *)>;

  SecondLife(Value first,
             const llvm::DenseMap<Operation *, unsigned> &positions,
             unsigned border, Again again, bool isComputed)
      : first(first), positions(positions), border(border), again(again),
        isComputed(isComputed) {}

  void run() {
    if (isComputed) {
      readInForward = true;
      lastRead = first.getDefiningOp();
    }
    collect(first);
    // A tensor that only backward reads has one life, there.
    if (!readInForward)
      return;
    llvm::stable_sort(uses, [&](OpOperand *a, OpOperand *b) {
      return positions.at(a->getOwner()) < positions.at(b->getOwner());
    });
    for (OpOperand *use : uses) {
      OpBuilder builder(use->getOwner());
      use->set(rebuild(use->get(), builder));
    }
  }

private:
  /// Finds the reads in backward of `value` and of what forward derives from
  /// it.
  void collect(Value value) {
    for (OpOperand &use : value.getUses()) {
      Operation *user = use.getOwner();
      // A copy that is a result was made for it, in forward.
      if (user->hasTrait<OpTrait::IsTerminator>())
        continue;
      if (positions.at(user) > border) {
        uses.push_back(&use);
        continue;
      }
      if (!readInForward || positions.at(lastRead) < positions.at(user))
        lastRead = user;
      readInForward = true;
      for (OpResult result : user->getResults())
        if (user->getOperand(0) == value &&
            (getViewSource(result) || (!isComputed && isDerived(result))))
          collect(result);
    }
  }

  Value rebuild(Value value, OpBuilder &builder) {
    if (Value known = rebuilt.lookupOrNull(value))
      return known;
    if (value == first) {
      Value made = again(builder, lastRead);
      rebuilt.map(value, made);
      return made;
    }
    Operation *op = value.getDefiningOp();
    rebuild(op->getOperand(0), builder);
    builder.clone(*op, rebuilt);
    return rebuilt.lookup(value);
  }

  Value first;
  const llvm::DenseMap<Operation *, unsigned> &positions;
  unsigned border;
  Again again;
  bool isComputed;
  bool readInForward = false;
  Operation *lastRead = nullptr; ///< in forward
  SmallVector<OpOperand *> uses;
  IRMapping rebuilt;
};
} // namespace

void fsdp::giveSecondLife(
    Value value, const llvm::DenseMap<Operation *, unsigned> &positions,
    unsigned border, llvm::function_ref<Value(OpBuilder &, Operation *)> again,
    bool isComputed) {
  SecondLife(value, positions, border, again, isComputed).run();
}
