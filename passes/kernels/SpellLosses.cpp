//===- SpellLosses.cpp - Losses, as numbers of rows and their sum ---------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/kernels/SpellLosses.h"

#include "ir/aten/Aten.h"
#include "passes/analysis/TensorOps.h"
#include "passes/kernels/Rules.h"

using namespace mlir;
using namespace fsdp;

static bool isTensorOf(Value value, Type element, int64_t rank) {
  auto type = cast<RankedTensorType>(value.getType());
  return type.getElementType() == element && type.getRank() == rank &&
         type.getNumElements() > 0;
}

/// Whether a kernel makes what the loss reads, and all is as it is written for.
static bool canSpell(Operation *op) {
  Builder builder(op->getContext());
  if (op->getName().getStringRef() != "aten.nll_loss_forward" ||
      op->getNumOperands() != 2 || getLossReduction(op) == LossReduction::None)
    return false;
  Value self = op->getOperand(0), target = op->getOperand(1);
  Operation *maker = self.getDefiningOp();
  return isTensorOf(self, builder.getF32Type(), 2) &&
         isTensorOf(target, builder.getI64Type(), 1) && maker &&
         maker->getName().getStringRef() == "aten._log_softmax";
}

namespace {

class Speller {
public:
  explicit Speller(Operation *op)
      : op(op), ops(op), self(op->getOperand(0)), target(op->getOperand(1)),
        rows(cast<RankedTensorType>(self.getType()).getDimSize(0)),
        classes(cast<RankedTensorType>(self.getType()).getDimSize(1)),
        ignored(ops.integer("ignore_index", getIgnoredTarget(op))) {}

  void run();

private:
  RankedTensorType vector(Type element) const {
    return RankedTensorType::get({rows}, element);
  }
  Value makeLosses();
  Value lookUp(Value losses, Value isCounted);
  Value sum(Value vector);

  Operation *op;
  TensorOps ops;
  Value self, target;
  int64_t rows, classes;
  NamedAttribute ignored;
};

} // namespace

/// One a row, 0 where the target is to be ignored.
Value Speller::makeLosses() {
  OpBuilder &builder = ops.get();
  return aten::buildAtenOp(
             builder, ops.getLoc(), "aten.nll_loss_forward", {self, target},
             {ops.integer("reduction", int64_t(LossReduction::None)), ignored},
             {vector(builder.getF32Type()), builder.getNoneType()})
      ->getResult(0);
}

/// `losses`, each out of a row of `classes` that are all the same.
Value Speller::lookUp(Value losses, Value isCounted) {
  OpBuilder &builder = ops.get();
  Type integer = builder.getI64Type();
  Value index =
      ops.make("aten.mul.Tensor", {target, ops.cast(isCounted, integer)}, {},
               vector(integer));
  Value table = ops.expand(ops.view(losses, {rows, 1}), {rows, classes});
  Value found =
      ops.make("aten.gather", {table, ops.view(index, {rows, 1})},
               {ops.integer("dim", 1)},
               RankedTensorType::get({rows, 1}, builder.getF32Type()));
  return ops.view(found, {rows});
}

Value Speller::sum(Value vector) {
  Type element = ops.get().getF32Type();
  Value sum = ops.make(
      "aten.sum.dim_IntList", {ops.view(ops.cast(vector, element), {1, rows})},
      {ops.integers("dim", {1})}, RankedTensorType::get({1}, element));
  return ops.view(sum, {});
}

void Speller::run() {
  Value isCounted = ops.make(
      "aten.ne.Scalar", {target},
      {ops.integer("other", cast<IntegerAttr>(ignored.getValue()).getInt())},
      vector(ops.get().getI1Type()));
  Value weight = sum(isCounted);
  Value loss = sum(lookUp(makeLosses(), isCounted));
  if (getLossReduction(op) == LossReduction::Mean)
    loss = ops.divide(loss, weight);
  op->getResult(0).replaceAllUsesWith(loss);
  op->getResult(1).replaceAllUsesWith(weight);
  op->erase();
}

void fsdp::spellLosses(func::FuncOp program) {
  SmallVector<Operation *> losses;
  for (Operation &op : program.getBody().front())
    if (canSpell(&op))
      losses.push_back(&op);
  for (Operation *op : losses)
    Speller(op).run();
}
