//===- Float8.cpp - Casts to eight bits and their scales ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/analysis/Float8.h"

#include "ir/aten/Aten.h"
#include "ir/aten/Matchers.h"
#include "passes/analysis/Programs.h"

#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace fsdp;

bool fsdp::isFloat8(Type element) {
  return isa<Float8E4M3FNType, Float8E5M2Type>(element);
}

static bool isNumber(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && type.getRank() == 0;
}

bool fsdp::isFloat8Scaling(Operation *op) {
  return op && op->getName().getStringRef() == "aten.mul.Tensor" &&
         !isNumber(op->getOperand(0)) && isNumber(op->getOperand(1)) &&
         !op->use_empty() && llvm::all_of(op->getUsers(), [](Operation *user) {
           return aten::isPlainCast(user) &&
                  isFloat8(getElementTypeOrSelf(user->getResult(0)));
         });
}

bool fsdp::isGreatest(Operation *op) {
  if (!op || op->getName().getStringRef() != "aten.linalg_vector_norm" ||
      !isNumber(op->getResult(0)))
    return false;
  auto order = dyn_cast_or_null<FloatAttr>(aten::getStaticArgument(op, "ord"));
  return order && order.getValue().isPosInfinity();
}

Operation *fsdp::getGreatestOfShard(AllReduceOp reduce) {
  Value value = reduce.getInput();
  if (auto copy = value.getDefiningOp<CopyOp>())
    value = copy.getInput();
  Operation *op = value.getDefiningOp();
  return reduce.getReduction() == Reduction::Max && isGreatest(op) &&
                 getShardSource(op->getOperand(0))
             ? op
             : nullptr;
}

bool fsdp::isWireMaximum(AllReduceOp reduce) {
  Operation *greatest = reduce.getInput().getDefiningOp();
  if (reduce.getReduction() != Reduction::Max || reduce.getOf() ||
      !isGreatest(greatest) || getGreatestOfShard(reduce))
    return false;
  SmallVector<Operation *> worklist{reduce};
  while (!worklist.empty())
    for (Operation *user : worklist.pop_back_val()->getUsers()) {
      if (isFloat8Scaling(user))
        return user->getOperand(0) == greatest->getOperand(0);
      if (user->getNumResults() == 1 && isNumber(user->getResult(0)))
        worklist.push_back(user);
    }
  return false;
}

Operation *fsdp::getWireScaling(Value operand) {
  Operation *cast = operand.getDefiningOp();
  if (!cast || !isFloat8(getElementTypeOrSelf(operand.getType())) ||
      !aten::isPlainCast(cast))
    return nullptr;
  Operation *scaling = cast->getOperand(0).getDefiningOp();
  return isFloat8Scaling(scaling) ? scaling : nullptr;
}

bool fsdp::isWireUnscaling(Operation *op) {
  if (op->getName().getStringRef() != "aten.mul.Tensor" ||
      isNumber(op->getOperand(0)) || !isNumber(op->getOperand(1)))
    return false;
  Value sums = op->getOperand(0), sent;
  if (auto scatter = sums.getDefiningOp<ReduceScatterOp>())
    sent = scatter.getFull();
  else if (StartOpInterface start = getTransfer(sums);
           start && isStart(start, Collective::ReduceScatter))
    sent = getTransferred(sums);
  Operation *scaling = sent ? getWireScaling(sent) : nullptr;
  Operation *inverse = op->getOperand(1).getDefiningOp();
  return scaling && getElementTypeOrSelf(sums.getType()).isF32() && inverse &&
         inverse->getName().getStringRef() == "aten.reciprocal" &&
         inverse->getOperand(0) == scaling->getOperand(1);
}

AllReduceOp fsdp::getScaleMaximum(Operation *scaling) {
  SmallVector<Value> worklist{scaling->getOperand(1)};
  AllReduceOp found;
  while (!worklist.empty()) {
    Operation *op = worklist.pop_back_val().getDefiningOp();
    if (auto reduce = dyn_cast_or_null<AllReduceOp>(op)) {
      if (found && found != reduce)
        return {};
      found = reduce;
    } else if (op && llvm::all_of(op->getOperands(), isNumber)) {
      llvm::append_range(worklist, op->getOperands());
    } else {
      return {};
    }
  }
  return found;
}
