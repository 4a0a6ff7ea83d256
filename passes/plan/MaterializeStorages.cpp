//===- MaterializeStorages.cpp - Memory of one's own where needed ---------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/Passes.h"
#include "passes/analysis/Liveness.h"
#include "passes/analysis/Programs.h"
#include "passes/analysis/States.h"
#include "passes/analysis/TensorBuilders.h"

using namespace mlir;
using namespace fsdp;

namespace fsdp {
#define GEN_PASS_DEF_MATERIALIZESTORAGES
#include "passes/Passes.h.inc"
} // namespace fsdp

namespace {

struct MaterializeStorages
    : fsdp::impl::MaterializeStoragesBase<MaterializeStorages> {
  void runOnOperation() override {
    for (func::FuncOp program : getPrograms(getOperation()))
      materialize(program);
  }

  void materialize(func::FuncOp program) {
    Liveness liveness(program);
    // All-reduces whose operand something reads afterwards.
    DenseSet<std::pair<Operation *, unsigned>> contested;
    for (const StaleRead &read : liveness.getStaleReads())
      if (isStart(read.writer, Collective::AllReduce))
        contested.insert({read.writer, liveness.getStorage(read.value)});

    // What cannot be made in its state's place is copied there at once, and not
    // kept until the end: sums of gradients are large.
    StateTable states(getOperation());
    DenseSet<unsigned> sums;
    for (unsigned number : liveness.getCopies())
      if (StateOp state =
              states.lookup(program.getResultAttrOfType<FlatSymbolRefAttr>(
                  number, kStateAttr));
          state && state.getRole() == Role::Gradient)
        sums.insert(number);

    SmallVector<OpOperand *> operands;
    for (Operation &op : program.getBody().front()) {
      // Two members of one reduction in place may not be one storage.
      DenseSet<unsigned> members;
      for (OpOperand &operand : op.getOpOperands()) {
        unsigned storage = liveness.getStorage(operand.get());
        bool needed = false;
        if (asCutting(&op))
          needed = !isWhole(liveness, operand.get());
        else if (isStart(&op, Collective::AllReduce))
          needed = !isWhole(liveness, operand.get()) ||
                   contested.contains({&op, storage}) ||
                   !members.insert(storage).second;
        else if (isa<StartOp>(op))
          needed = storage == Liveness::kNone ||
                   !aten::isContiguous(getTensor(operand.get()));
        else if (isa<CopyStartOp>(op))
          needed = !aten::isContiguous(getTensor(operand.get()));
        else if (isa<func::ReturnOp>(op))
          needed = isForeignState(liveness, program, operand) ||
                   sums.contains(operand.getOperandNumber());
        if (needed)
          operands.push_back(&operand);
      }
    }
    for (OpOperand *operand : operands)
      clone(*operand);
  }

  /// Whether a transient storage begins and ends with `value`.
  static bool isWhole(const Liveness &liveness, Value value) {
    unsigned index = liveness.getStorage(value);
    if (index == Liveness::kNone)
      return false;
    const Storage &storage = liveness.getStorages()[index];
    if (storage.kind == StorageKind::State ||
        storage.kind == StorageKind::Input || !storage.value)
      return false;
    RankedTensorType type = getTensor(value), whole = getTensor(storage.value);
    return aten::isContiguous(type) && aten::isContiguous(whole) &&
           type.getElementType() == whole.getElementType() &&
           type.getNumElements() == whole.getNumElements();
  }

  /// Whether a result of the program lies in a state that it is not bound to.
  /// (What an optimizer or an elementwise op left in its own state is bound.)
  static bool isForeignState(const Liveness &liveness, func::FuncOp program,
                             OpOperand &operand) {
    unsigned index = liveness.getStorage(operand.get());
    if (index == Liveness::kNone)
      return false;
    const Storage &storage = liveness.getStorages()[index];
    return storage.kind == StorageKind::State &&
           program.getResultAttr(operand.getOperandNumber(), kStateAttr) !=
               storage.state;
  }

  static void clone(OpOperand &operand) {
    Operation *user = operand.getOwner();
    // A result must be saved before anything overwrites it: where it is made.
    OpBuilder builder(user);
    if (isa<func::ReturnOp>(user))
      builder.setInsertionPointAfterValue(operand.get());
    operand.set(buildContiguousCopy(builder, user->getLoc(), operand.get()));
  }
};

} // namespace
