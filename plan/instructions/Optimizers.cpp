//===- Optimizers.cpp - Updates of parameters in place --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/DType.h"
#include "plan/ProgramCheck.h"
#include "plan/ProgramText.h"
#include "plan/Shape.h"
#include "plan/StateParts.h"
#include "support/BlockCodes.h"

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

/// Elements of a contiguous value.
static int64_t countElements(int64_t value, const ProgramCheck &check) {
  return static_cast<int64_t>(
      checkedElements(check.contiguous(value).shape).value_or(0));
}

static bool isCode(plan::DType dtype) {
  return dtype == plan::DType::u8 || dtype == plan::DType::f8e4m3fn;
}

/// States that say which elements of the model's tensors a rank has.
static void checkStates(const std::vector<uint32_t> &params,
                        const std::vector<uint32_t> &states,
                        const ProgramCheck &check) {
  if (states.size() != params.size())
    check.refuse("has not one state for each parameter");
  for (size_t i = 0; i < states.size(); ++i) {
    if (states[i] >= check.plan.states.size())
      check.refuse("names a state that is not there");
    const plan::StateT &state = *check.plan.states[states[i]];
    if (state.bytes / dtypeBytes(state.dtype) !=
        static_cast<uint64_t>(countElements(params[i], check)))
      check.refuse("expects the elements of state '" + state.name + "' for " +
                   check.name(params[i]));
  }
}

/// That the scales of `moments`, whose blocks ranks share, are those of the
/// model's tensors.
static void checkSharedScales(const std::vector<uint32_t> &states,
                              const std::vector<uint32_t> &scales,
                              const ProgramCheck &check) {
  for (size_t i = 0; i < scales.size(); ++i) {
    const plan::StateT &state = *check.plan.states[states[i % states.size()]];
    auto elements = static_cast<int64_t>(
        checkedElements(wholeShape(check.plan, state)).value_or(0));
    int64_t blocks = (elements + kBlockElements - 1) / kBlockElements;
    if (state.layout == plan::Layout::flat ||
        countElements(scales[i], check) != blocks)
      check.refuse("expects the " + std::to_string(blocks) +
                   " scales of all of '" + state.name + "' for " +
                   check.name(scales[i]));
  }
}

/// What our own kernels take: they go by addresses and one type of parameters
/// and gradients.
static void checkBlockOperands(const std::vector<uint32_t> &params,
                               const std::vector<uint32_t> &grads,
                               const std::vector<uint32_t> &moments,
                               const ProgramCheck &check) {
  plan::DType dtype = check.value(params[0]).dtype;
  if (dtype != plan::DType::f32 && dtype != plan::DType::bf16 &&
      dtype != plan::DType::f16)
    check.refuse("stores moments of " + check.name(params[0]) +
                 " in another type than its own, and it is neither f32, bf16 "
                 "nor f16");
  for (size_t i = 0; i < params.size(); ++i)
    if (check.contiguous(params[i]).dtype != dtype ||
        check.value(grads[i]).dtype != dtype)
      check.refuse("expects parameters and gradients of one type, found " +
                   check.name(params[i]) + " and " + check.name(grads[i]));
  for (uint32_t moment : moments)
    check.contiguous(moment);
}

/// Moments, one list of those of all `params` behind the other, with their
/// scales. `maxima`: -1, or the greatest values of the blocks of all scales.
static void checkMoments(const std::vector<uint32_t> &params,
                         const std::vector<uint32_t> &moments,
                         const std::vector<uint32_t> &scales, int32_t maxima,
                         const ProgramCheck &check) {
  size_t codes = 0;
  for (size_t i = 0; i < moments.size(); ++i) {
    const plan::ValueT &moment = check.value(moments[i]);
    codes += isCode(moment.dtype);
    plan::DType own = check.value(params[i % params.size()]).dtype;
    if (moment.dtype != own && !isCode(moment.dtype) &&
        moment.dtype != plan::DType::f32 && moment.dtype != plan::DType::bf16)
      check.refuse("expects " + check.name(moments[i]) +
                   " to be f32, bf16, codes or of its parameter's type");
    if (moment.dtype != check.value(moments[0]).dtype)
      check.refuse("expects moments of one type, found " +
                   check.name(moments[i]) + " of another");
  }
  if (codes != scales.size())
    check.refuse("has " + std::to_string(scales.size()) + " scales for " +
                 std::to_string(codes) + " moments that are codes");
  int64_t all = 0;
  for (size_t i = 0; i < scales.size(); ++i) {
    int64_t blocks = countElements(scales[i], check);
    int64_t own = (countElements(moments[i], check) + kBlockElements - 1) /
                  kBlockElements;
    if (check.value(scales[i]).dtype != plan::DType::f32 ||
        (maxima < 0 ? blocks != own : blocks < own))
      check.refuse("expects f32 for each of " + std::to_string(own) +
                   " blocks for " + check.name(scales[i]));
    all += blocks;
  }
  if (maxima >= 0 && (check.value(maxima).dtype != plan::DType::f32 ||
                      countElements(maxima, check) != all))
    check.refuse("expects f32 for each of " + std::to_string(all) +
                 " blocks for " + check.name(maxima));
}

/// What says of an update how it stores what it computes.
template <typename OpTy>
static void checkStorage(const OpTy &op, const std::vector<uint32_t> &moments,
                         const ProgramCheck &check) {
  if (op.maxima != -1 && op.scales.empty())
    check.refuse("has maxima of no scales");
  if (op.params.empty())
    return;
  checkMoments(op.params, moments, op.scales, op.maxima, check);
  if (op.rounding || (!moments.empty() && check.value(moments[0]).dtype !=
                                              check.value(op.params[0]).dtype))
    checkBlockOperands(op.params, op.grads, moments, check);
  if (op.rounding || op.maxima != -1)
    checkStates(op.params, op.of, check);
  if (op.maxima != -1)
    checkSharedScales(op.of, op.scales, check);
  if (op.rounding && check.value(op.params[0]).dtype != plan::DType::bf16)
    check.refuse("rounds parameters at random that are not bf16");
}

static std::vector<uint32_t> concat(std::vector<uint32_t> a,
                                    const std::vector<uint32_t> &b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

template <typename OpTy>
static std::string printStorage(const OpTy &op, const ProgramText &text) {
  return (op.scales.empty() ? "" : " scales(" + text.uses(op.scales) + ")") +
         (op.maxima < 0 ? "" : " maxima " + text.use(op.maxima)) +
         (op.rounding ? " rounding " + std::to_string(op.rounding_seed) : "");
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
  operands.add(Access::update, op.scales);
  operands.addOptional(Access::read, op.maxima);
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
  checkStorage(op, concat(op.exp_avgs, op.exp_avg_sqs), check);
  checkFoundInf(op.found_inf, check);
}

InstructionText fsdp::print(const plan::AdamT &op, const ProgramText &text) {
  return {"", plan::EnumNameAdamKind(op.kind),
          " params(" + text.uses(op.params) + ") grads(" + text.uses(op.grads) +
              ") exp_avgs(" + text.uses(op.exp_avgs) + ") exp_avg_sqs(" +
              text.uses(op.exp_avg_sqs) + ") step " + text.use(op.step) +
              printNumbers(op, text) + " betas(" + formatNumber(op.beta1) +
              ", " + formatNumber(op.beta2) + ") eps " + formatNumber(op.eps) +
              " weight_decay " + formatNumber(op.weight_decay) +
              printStorage(op, text)};
}

void fsdp::listOperands(const plan::SgdT &op, Operands &operands) {
  operands.add(Access::update, op.params);
  operands.add(Access::spend, op.grads);
  operands.add(Access::update, op.momentum_buffers);
  operands.add(Access::update, op.scales);
  operands.addOptional(Access::read, op.maxima);
  operands.addOptional(Access::read, op.step);
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
  checkStorage(op, op.momentum_buffers, check);
  if (op.rounding && op.step == -1)
    check.refuse("rounds at random without a step");
  checkFoundInf(op.found_inf, check);
}

InstructionText fsdp::print(const plan::SgdT &op, const ProgramText &text) {
  return {"", "sgd",
          " params(" + text.uses(op.params) + ") grads(" + text.uses(op.grads) +
              ") momentum_buffers(" + text.uses(op.momentum_buffers) + ")" +
              printNumbers(op, text) + " momentum " +
              formatNumber(op.momentum) + " weight_decay " +
              formatNumber(op.weight_decay) + (op.nesterov ? " nesterov" : "") +
              printStorage(op, text)};
}

void fsdp::listOperands(const plan::BlockMaximaT &op, Operands &operands) {
  operands.add(Access::read, op.params);
  operands.add(Access::read, op.grads);
  operands.add(Access::read, op.moments);
  operands.add(Access::read, op.scales);
  operands.addOptional(Access::read, op.grad_scale);
  operands.add(Access::define, op.output);
}

void fsdp::verify(const plan::BlockMaximaT &op, const ProgramCheck &check) {
  check.enumerator(op.kind <= plan::OptimizerKind::MAX);
  for (double number : {op.beta1, op.beta2, op.momentum, op.weight_decay})
    check.finite(number);
  size_t count = op.params.size();
  size_t lists = op.kind == plan::OptimizerKind::sgd ? 1 : 2;
  if (count == 0 || op.grads.size() != count ||
      op.moments.size() != lists * count || op.scales.size() != lists * count)
    check.refuse("has not one gradient, and a scale for each moment, for each "
                 "parameter");
  checkShapes(op.params, op.grads, check);
  for (size_t i = 0; i < op.moments.size(); ++i)
    if (check.value(op.moments[i]).shape !=
        check.value(op.params[i % count]).shape)
      check.refuse("expects the shape of " + check.name(op.params[i % count]) +
                   " for " + check.name(op.moments[i]));
  if (check.value(op.output).place != plan::Place::slot)
    check.refuse("writes maxima to " + check.name(op.output) +
                 ", which is no slot");
  checkMoments(op.params, op.moments, op.scales,
               static_cast<int32_t>(op.output), check);
  checkBlockOperands(op.params, op.grads, op.moments, check);
  checkStates(op.params, op.of, check);
  checkSharedScales(op.of, op.scales, check);
}

InstructionText fsdp::print(const plan::BlockMaximaT &op,
                            const ProgramText &text) {
  return {text.definition(op.output), "block_maxima",
          std::string(" ") + plan::EnumNameOptimizerKind(op.kind) + " params(" +
              text.uses(op.params) + ") grads(" + text.uses(op.grads) +
              ") moments(" + text.uses(op.moments) + ") scales(" +
              text.uses(op.scales) + ") grad_scale " + text.use(op.grad_scale) +
              " betas(" + formatNumber(op.beta1) + ", " +
              formatNumber(op.beta2) + ") momentum " +
              formatNumber(op.momentum) + " weight_decay " +
              formatNumber(op.weight_decay)};
}
