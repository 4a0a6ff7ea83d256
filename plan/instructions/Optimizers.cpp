//===- Optimizers.cpp - Updates of parameters in place --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "support/Optimizers.h"
#include "plan/DType.h"
#include "plan/ProgramCheck.h"
#include "plan/ProgramText.h"
#include "plan/Shape.h"
#include "plan/StateParts.h"
#include "support/BlockCodes.h"

using namespace fsdp;

/// Tensors that go with the parameters, one list of all behind the other.
static void checkShapes(const std::vector<uint32_t> &params,
                        const std::vector<uint32_t> &lists,
                        const ProgramCheck &check) {
  for (size_t i = 0; i < lists.size(); ++i) {
    uint32_t param = params[i % params.size()];
    if (check.value(lists[i]).shape != check.value(param).shape)
      check.refuse("expects the shape of " + check.name(param) + " for " +
                   check.name(lists[i]));
  }
}

/// What a plan says of a kind: its numbers, a gradient and the moments that it
/// keeps for each parameter.
template <typename OpTy>
static void checkKind(const OpTy &op, const ProgramCheck &check) {
  check.enumerator(op.kind < getOptimizers().size());
  const OptimizerFacts &facts = getFacts(OptimizerKind(op.kind));
  if (op.numbers.size() != facts.numbers.size())
    check.refuse("has " + std::to_string(op.numbers.size()) + " numbers, but " +
                 std::string(facts.name) + " has " +
                 std::to_string(facts.numbers.size()));
  for (size_t i = 0; i < op.numbers.size(); ++i) {
    check.finite(op.numbers[i]);
    const OptimizerNumberFacts &number = getFacts(facts.numbers[i].number);
    if (!number.holds(op.numbers[i]))
      check.refuse("holds a " + std::string(number.name) + " out of range");
  }
  size_t count = op.params.size();
  size_t kept = facts.getMoments(facts.fromList(op.numbers)).size();
  if (op.grads.size() != count || op.moments.size() != kept * count)
    check.refuse("has not one gradient and " + std::to_string(kept) +
                 " moments for each parameter");
  checkShapes(op.params, op.grads, check);
  checkShapes(op.params, op.moments, check);
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

/// How an update stores what it computes.
static void checkStorage(const plan::UpdateT &op, const ProgramCheck &check) {
  if (op.maxima != -1 && op.scales.empty())
    check.refuse("has maxima of no scales");
  if (op.params.empty())
    return;
  checkMoments(op.params, op.moments, op.scales, op.maxima, check);
  if (op.rounding ||
      (!op.moments.empty() &&
       check.value(op.moments[0]).dtype != check.value(op.params[0]).dtype))
    checkBlockOperands(op.params, op.grads, op.moments, check);
  if (op.rounding || op.maxima != -1)
    checkStates(op.params, op.of, check);
  if (op.maxima != -1)
    checkSharedScales(op.of, op.scales, check);
  if (op.rounding && check.value(op.params[0]).dtype != plan::DType::bf16)
    check.refuse("rounds parameters at random that are not bf16");
}

/// " betas(0.9, 0.999) eps 1e-08 weight_decay 0.01"
static std::string printNumbers(const OptimizerFacts &facts,
                                const OptimizerNumbers &own) {
  std::string text;
  for (const auto &[key, numbers] : getKeys(facts)) {
    if (getFacts(numbers[0]).range == NumberRange::flag) {
      text += own[numbers[0]] != 0 ? " " + std::string(key) : "";
      continue;
    }
    text += " " + std::string(key);
    std::string list;
    for (OptimizerNumber number : numbers)
      list += (list.empty() ? "" : ", ") + formatNumber(own[number]);
    text += numbers.size() == 1 ? " " + list : "(" + list + ")";
  }
  return text;
}

/// " params(%a) grads(%b) exp_avgs(%c) exp_avg_sqs(%d)"
template <typename OpTy>
static std::string printTensors(const OpTy &op, const OptimizerFacts &facts,
                                const ProgramText &text) {
  std::string all = " params(" + text.uses(op.params) + ") grads(" +
                    text.uses(op.grads) + ")";
  auto next = op.moments.begin();
  for (std::string_view name : facts.moments) {
    size_t count = op.moments.empty() ? 0 : op.params.size();
    std::vector<uint32_t> list(next, next + std::ptrdiff_t(count));
    next += std::ptrdiff_t(count);
    all += " " + std::string(name) + "s(" + text.uses(list) + ")";
  }
  return all;
}

void fsdp::listOperands(const plan::UpdateT &op, Operands &operands) {
  operands.add(Access::update, op.params);
  operands.add(Access::spend, op.grads);
  operands.add(Access::update, op.moments);
  operands.add(Access::update, op.scales);
  operands.addOptional(Access::read, op.maxima);
  operands.addOptional(Access::read, op.step);
  operands.add(Access::read, op.lr);
  operands.addOptional(Access::read, op.grad_scale);
  operands.addOptional(Access::read, op.found_inf);
}

void fsdp::verify(const plan::UpdateT &op, const ProgramCheck &check) {
  checkKind(op, check);
  checkStorage(op, check);
  bool counts = getFacts(OptimizerKind(op.kind)).countsUpdates;
  if (op.step == -1 && (counts || op.rounding))
    check.refuse("needs a step");
  checkFoundInf(op.found_inf, check);
}

InstructionText fsdp::print(const plan::UpdateT &op, const ProgramText &text) {
  const OptimizerFacts &facts = getFacts(OptimizerKind(op.kind));
  auto optional = [&](const char *name, int32_t value) {
    return value < 0 ? std::string() : name + text.use(value);
  };
  return {
      "", std::string(facts.name),
      printTensors(op, facts, text) + optional(" step ", op.step) + " lr " +
          text.use(op.lr) + " grad_scale " + text.use(op.grad_scale) +
          optional(" found_inf ", op.found_inf) +
          printNumbers(facts, facts.fromList(op.numbers)) +
          (op.scales.empty() ? "" : " scales(" + text.uses(op.scales) + ")") +
          optional(" maxima ", op.maxima) +
          (op.rounding ? " rounding " + std::to_string(op.rounding_seed) : "")};
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
  checkKind(op, check);
  if (op.moments.empty() || op.scales.size() != op.moments.size())
    check.refuse("has not a scale for each moment of each parameter");
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
  const OptimizerFacts &facts = getFacts(OptimizerKind(op.kind));
  return {text.definition(op.output), "block_maxima",
          " " + std::string(facts.name) + printTensors(op, facts, text) +
              " scales(" + text.uses(op.scales) + ") grad_scale " +
              text.use(op.grad_scale) +
              printNumbers(facts, facts.fromList(op.numbers))};
}
