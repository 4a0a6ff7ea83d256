//===- Losses.cpp - Losses and their gradients ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/kernels/Rules.h"

using namespace mlir;
using namespace fsdp;
using plan::DType;

LossReduction fsdp::getLossReduction(Operation *op) {
  return LossReduction(
      getInteger(op, "reduction").value_or(int64_t(LossReduction::Mean)));
}

int64_t fsdp::getIgnoredTarget(Operation *op) {
  return getInteger(op, "ignore_index").value_or(-100);
}

static LogicalResult emitMseBackward(KernelCall &call) {
  if (!isFloat(call.getCommonType()))
    return failure();
  // Of the mean, unless it is the sum or nothing.
  double elements =
      static_cast<double>(countElements(shapeOf(call.getValue("self"))));
  double factor =
      getLossReduction(call.op) == LossReduction::Mean ? 2 / elements : 2;
  // Each operation is rounded.
  auto round = [&](Term term) {
    return call.builder.round(term, call.getCommonType());
  };
  Term apart = round(call.get("self") - call.get("target"));
  call.give(round(round(call.number(factor)) * apart) *
            call.get("grad_output"));
  return success();
}

/// `self` lends its shape alone; the target is one number a row.
static FailureOr<KernelFrame> frameNllBackward(Operation *op) {
  FailureOr<KernelFrame> frame = framePointwise(op);
  if (failed(frame) || frame->shape.size() != 2 || op->getNumOperands() != 4)
    return failure(); // with weights by class it looks these up
  KernelShape rows{frame->shape.front()};
  frame->columns = frame->shape.back();
  frame->operands[2] = rows; // target
  if (getLossReduction(op) == LossReduction::None)
    frame->operands[0] = rows;
  return frame;
}

/// Whether a column is a row's target, and not one to ignore.
static std::optional<Term> findTarget(KernelCall &call) {
  Term target = call.getStored("target");
  if (call.builder.get(target).type != KernelType::i64)
    return std::nullopt;
  Term column = call.builder.append(KernelOpKind::column, {}, {call.columns});
  Term ignored = apply(KernelOpKind::equal_integers, target,
                       call.builder.integer(getIgnoredTarget(call.op)));
  return apply(KernelOpKind::equal_integers, column, target) & !ignored;
}

/// The forward operator refused targets that are no class.
static LogicalResult emitNllBackward(KernelCall &call) {
  if (!isFloat(call.getResultType()) || call.hasTensor("weight"))
    return failure();
  Term gradient = call.getNumber("grad_output");
  if (getLossReduction(call.op) == LossReduction::Mean)
    gradient = gradient / call.getNumber("total_weight");
  std::optional<Term> isTarget = findTarget(call);
  if (!isTarget)
    return failure();
  call.give(select(*isTarget, -gradient, call.number(0)));
  return success();
}

/// One number a row; the sum of all weights is none of a kernel, which could
/// not say which targets are no class either (SpellLosses.cpp).
static FailureOr<KernelFrame> frameNllForward(Operation *op) {
  if (op->getNumOperands() != 2 ||
      getLossReduction(op) != LossReduction::None ||
      !isa<NoneType>(op->getResult(1).getType()))
    return failure();
  KernelFrame frame;
  frame.shape = KernelShape(shapeOf(op->getOperand(0)));
  if (frame.shape.size() != 2)
    return failure();
  frame.columns = frame.shape.back();
  frame.operands = {frame.shape, {frame.shape.front()}};
  frame.isRowSum.assign(2, false);
  return frame;
}

static LogicalResult emitNllForward(KernelCall &call) {
  std::optional<Term> isTarget = findTarget(call);
  if (!isFloat(call.getResultType()) || !isTarget)
    return failure();
  Term picked = sumColumns(
      call, select(*isTarget, call.getNumber("self"), call.number(0)));
  call.give(-picked);
  call.give(call.number(0)); // nobody asked for it
  return success();
}

ArrayRef<KernelRule> fsdp::getLossRules() {
  static constexpr KernelRule rules[] = {
      {"mse_loss_backward", framePointwise, emitMseBackward},
      {"nll_loss_forward", frameNllForward, emitNllForward},
      {"nll_loss_backward", frameNllBackward, emitNllBackward},
  };
  return rules;
}
