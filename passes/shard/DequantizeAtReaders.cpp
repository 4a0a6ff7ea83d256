//===- DequantizeAtReaders.cpp - Numbers live for one reader --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/aten/Matchers.h"
#include "passes/Passes.h"
#include "passes/analysis/Programs.h"
#include "passes/analysis/Views.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace fsdp;

namespace fsdp {
#define GEN_PASS_DEF_DEQUANTIZEATREADERS
#include "passes/Passes.h.inc"
} // namespace fsdp

namespace {

/// One dequantized tensor.
class Readers {
public:
  explicit Readers(DequantizeOp op)
      : op(op), part(op.getBlocks().getDefiningOp<ShardOp>()) {}

  void run() {
    collect(op.getResult());
    for (auto &[reader, operands] : reads) {
      OpBuilder builder(reader);
      IRMapping again;
      for (OpOperand *operand : operands)
        operand->set(rebuild(operand->get(), builder, again));
    }
    for (Operation *each : llvm::reverse(derived))
      if (each->use_empty())
        each->erase();
    if (op->use_empty())
      op->erase();
    if (part && part->use_empty())
      part->erase();
  }

private:
  /// Whether `user` passes `value` on as a view, in another type, or a part of
  /// it.
  static bool isPassedOn(Operation *user, Value value) {
    return user->getNumResults() == 1 && user->getNumOperands() == 1 &&
           (getViewSource(user->getResult(0)) == value || aten::isCast(user) ||
            isa<ShardOp>(user));
  }

  void collect(Value value) {
    for (OpOperand &use : value.getUses()) {
      Operation *user = use.getOwner();
      if (isPassedOn(user, value)) {
        derived.push_back(user);
        collect(user->getResult(0));
      } else {
        reads[user].push_back(&use);
      }
    }
  }

  Value rebuild(Value value, OpBuilder &builder, IRMapping &again) {
    if (Value known = again.lookupOrNull(value))
      return known;
    Operation *made = value.getDefiningOp();
    bool isFirst = made == (part ? part.getOperation() : op.getOperation());
    if (!isFirst)
      rebuild(made->getOperand(0), builder, again);
    builder.clone(*made, again);
    return again.lookup(value);
  }

  DequantizeOp op;
  /// Takes the codes of a part, again at each reader: what is gathered again
  /// need not be kept. Null if all are read.
  ShardOp part;
  SmallVector<Operation *> derived; ///< each behind what it is of
  llvm::MapVector<Operation *, SmallVector<OpOperand *>> reads;
};

struct DequantizeAtReaders final
    : fsdp::impl::DequantizeAtReadersBase<DequantizeAtReaders> {
  void runOnOperation() override {
    for (func::FuncOp func : getPrograms(getOperation()))
      for (DequantizeOp op : llvm::to_vector(func.getOps<DequantizeOp>()))
        Readers(op).run();
  }
};

} // namespace
