//===- Optimizers.cpp - Updates of parameters in place --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/ProgramCheck.h"
#include "plan/ProgramText.h"

using namespace fsdp;

template <typename OpTy>
static void listNumbers(const OpTy &op, Operands &operands) {
  operands.add(Access::read, op.lr);
  operands.addOptional(Access::read, op.grad_scale);
  operands.addOptional(Access::read, op.found_inf);
}

/// Tensors that go with the parameters.
static void checkShapes(const std::vector<uint32_t> &params,
                        const std::vector<uint32_t> &list,
                        const ProgramCheck &check) {
  for (size_t i = 0; i < list.size(); ++i)
    if (check.value(list[i]).shape != check.value(params[i]).shape)
      check.refuse("expects the shape of " + check.name(params[i]) + " for " +
                   check.name(list[i]));
}

static void checkFoundInf(int32_t v, const ProgramCheck &check) {
  if (v != -1 && (check.value(v).dtype != plan::DType::f32 ||
                  !check.value(v).shape.empty()))
    check.refuse("expects a scalar of f32 for " + check.name(v));
}

template <typename OpTy>
static std::string printNumbers(const OpTy &op, const ProgramText &text) {
  return " lr " + text.use(op.lr) + " grad_scale " + text.use(op.grad_scale) +
         (op.found_inf < 0 ? "" : " found_inf " + text.use(op.found_inf));
}

void fsdp::listOperands(const plan::AdamT &op, Operands &operands) {
  operands.add(Access::update, op.params);
  operands.add(Access::spend, op.grads);
  operands.add(Access::update, op.exp_avgs);
  operands.add(Access::update, op.exp_avg_sqs);
  operands.add(Access::read, op.step);
  listNumbers(op, operands);
}

void fsdp::verify(const plan::AdamT &op, const ProgramCheck &check) {
  check.enumerator(op.kind <= plan::AdamKind::MAX);
  for (double number : {op.beta1, op.beta2, op.eps, op.weight_decay})
    check.finite(number);
  size_t count = op.params.size();
  if (op.grads.size() != count || op.exp_avgs.size() != count ||
      op.exp_avg_sqs.size() != count)
    check.refuse("has not one gradient and two moments for each parameter");
  for (const auto *list : {&op.grads, &op.exp_avgs, &op.exp_avg_sqs})
    checkShapes(op.params, *list, check);
  checkFoundInf(op.found_inf, check);
}

InstructionText fsdp::print(const plan::AdamT &op, const ProgramText &text) {
  return {"", plan::EnumNameAdamKind(op.kind),
          " params(" + text.uses(op.params) + ") grads(" + text.uses(op.grads) +
              ") exp_avgs(" + text.uses(op.exp_avgs) + ") exp_avg_sqs(" +
              text.uses(op.exp_avg_sqs) + ") step " + text.use(op.step) +
              printNumbers(op, text) + " betas(" + formatNumber(op.beta1) +
              ", " + formatNumber(op.beta2) + ") eps " + formatNumber(op.eps) +
              " weight_decay " + formatNumber(op.weight_decay)};
}

void fsdp::listOperands(const plan::SgdT &op, Operands &operands) {
  operands.add(Access::update, op.params);
  operands.add(Access::spend, op.grads);
  operands.add(Access::update, op.momentum_buffers);
  listNumbers(op, operands);
}

void fsdp::verify(const plan::SgdT &op, const ProgramCheck &check) {
  check.finite(op.momentum);
  check.finite(op.weight_decay);
  size_t count = op.params.size();
  if (op.grads.size() != count ||
      op.momentum_buffers.size() != (op.momentum != 0 ? count : 0))
    check.refuse("has not one gradient and momentum buffer for each parameter");
  checkShapes(op.params, op.grads, check);
  checkShapes(op.params, op.momentum_buffers, check);
  checkFoundInf(op.found_inf, check);
}

InstructionText fsdp::print(const plan::SgdT &op, const ProgramText &text) {
  return {"", "sgd",
          " params(" + text.uses(op.params) + ") grads(" + text.uses(op.grads) +
              ") momentum_buffers(" + text.uses(op.momentum_buffers) + ")" +
              printNumbers(op, text) + " momentum " +
              formatNumber(op.momentum) + " weight_decay " +
              formatNumber(op.weight_decay) + (op.nesterov ? " nesterov" : "")};
}
