//===- UpdateRules.cpp - What optimizers compute --------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/optimize/UpdateRules.h"

#include "support/Vectorized.h"

#include <cmath>

using namespace fsdp;

Coefficients::Coefficients(const UpdateRule &rule,
                           const UpdateNumbers &numbers) {
  using Number = OptimizerNumber;
  const OptimizerNumbers &own = rule.numbers;
  bool isDecoupled = rule.kind == OptimizerKind::adamw;
  gradScale = numbers.gradScale;
  lr = static_cast<float>(numbers.lr);
  beta1 = static_cast<float>(own[Number::beta1]);
  beta2 = static_cast<float>(own[Number::beta2]);
  eps = static_cast<float>(own[Number::eps]);
  momentum = static_cast<float>(own[Number::momentum]);
  decay = static_cast<float>(own[Number::weight_decay] *
                             (isDecoupled ? numbers.lr : 1));
  stepSize = static_cast<float>(
      numbers.lr / (1 - std::pow(own[Number::beta1], numbers.step)));
  rootCorrection = static_cast<float>(
      std::sqrt(1 - std::pow(own[Number::beta2], numbers.step)));
  nesterov = own[Number::nesterov] != 0;
  hasMoments = !getFacts(rule.kind).getMoments(own).empty();
}

FSDP_VECTORIZED
void scaleGradients(const Coefficients &c, int count, Block &block) {
  if (c.gradScale != 1)
    for (int i = 0; i < count; ++i)
      block.grad[i] /= c.gradScale;
}

FSDP_VECTORIZED
void addDecay(const Coefficients &c, int count, Block &block) {
  if (c.decay != 0)
    for (int i = 0; i < count; ++i)
      block.grad[i] += c.decay * block.param[i];
}

FSDP_VECTORIZED
void updateAdamMoments(const Coefficients &c, int count, Block &block) {
  float *first = block.moments[0], *second = block.moments[1];
  const float *grad = block.grad;
  for (int i = 0; i < count; ++i) {
    first[i] += (1 - c.beta1) * (grad[i] - first[i]);
    second[i] = second[i] * c.beta2 + (1 - c.beta2) * grad[i] * grad[i];
  }
}

FSDP_VECTORIZED
void updateAdamParam(const Coefficients &c, int count, Block &block) {
  const float *first = block.moments[0], *second = block.moments[1];
  float *param = block.param;
  for (int i = 0; i < count; ++i)
    param[i] -= c.stepSize * first[i] /
                (std::sqrt(second[i]) / c.rootCorrection + c.eps);
}

FSDP_VECTORIZED
void decayParam(const Coefficients &c, int count, Block &block) {
  for (int i = 0; i < count; ++i)
    block.param[i] -= c.decay * block.param[i];
}

FSDP_VECTORIZED
void updateMomentum(const Coefficients &c, int count, Block &block) {
  float *buffer = block.moments[0];
  for (int i = 0; i < count; ++i)
    buffer[i] = c.momentum * buffer[i] + block.grad[i];
}

FSDP_VECTORIZED
void updateSgdParam(const Coefficients &c, int count, Block &block) {
  if (c.hasMoments && c.nesterov)
    for (int i = 0; i < count; ++i)
      block.grad[i] += c.momentum * block.moments[0][i];
  const float *way =
      c.hasMoments && !c.nesterov ? block.moments[0] : block.grad;
  for (int i = 0; i < count; ++i)
    block.param[i] -= c.lr * way[i];
}

static void updateDecoupledAdamMoments(const Coefficients &c, int count,
                                       Block &block) {
  scaleGradients(c, count, block);
  updateAdamMoments(c, count, block);
}

static void updateDecayingAdamMoments(const Coefficients &c, int count,
                                      Block &block) {
  scaleGradients(c, count, block);
  addDecay(c, count, block);
  updateAdamMoments(c, count, block);
}

static void updateDecoupledAdamParam(const Coefficients &c, int count,
                                     Block &block) {
  decayParam(c, count, block);
  updateAdamParam(c, count, block);
}

static void updateSgdMoments(const Coefficients &c, int count, Block &block) {
  scaleGradients(c, count, block);
  addDecay(c, count, block);
  if (c.hasMoments)
    updateMomentum(c, count, block);
}

const UpdateArithmetic &fsdp::getArithmetic(OptimizerKind kind) {
  static constexpr UpdateArithmetic adamw{updateDecoupledAdamMoments,
                                          updateDecoupledAdamParam},
      adam{updateDecayingAdamMoments, updateAdamParam},
      sgd{updateSgdMoments, updateSgdParam};
  switch (kind) {
  case OptimizerKind::adamw:
    return adamw;
  case OptimizerKind::adam:
    return adam;
  case OptimizerKind::sgd:
    return sgd;
  }
  TORCH_CHECK(false, "an optimizer without arithmetic");
}
