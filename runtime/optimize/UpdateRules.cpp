//===- UpdateRules.cpp - What optimizers compute --------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/optimize/UpdateRules.h"

#include "support/Vectorized.h"

using namespace fsdp;

RuleNumbers fsdp::getNumbers(const UpdateRule &rule) {
  using Number = OptimizerNumber;
  const OptimizerNumbers &own = rule.numbers;
  return {.beta1 = own[Number::beta1],
          .beta2 = own[Number::beta2],
          .eps = own[Number::eps],
          .momentum = own[Number::momentum],
          .weightDecay = own[Number::weight_decay],
          .isDecoupled = rule.kind == OptimizerKind::adamw,
          .nesterov = own[Number::nesterov] != 0,
          .hasMoments = !getFacts(rule.kind).getMoments(own).empty()};
}

// Coefficients are copied: what is stored to a block might be theirs.
template <auto function>
[[gnu::always_inline]] inline void forEach(Coefficients c, int count,
                                           Block &block) {
  for (int i = 0; i < count; ++i)
    function(c, {block.param[i], block.grad[i], block.moments[0][i],
                 block.moments[1][i]});
}

#define FSDP_ARITHMETIC(kind)                                                  \
  FSDP_VECTORIZED void update##kind##Moments(const Coefficients &c, int count, \
                                             Block &block) {                   \
    forEach<element::kind::moments>(c, count, block);                          \
  }                                                                            \
  FSDP_VECTORIZED void update##kind##Param(const Coefficients &c, int count,   \
                                           Block &block) {                     \
    forEach<element::kind::param>(c, count, block);                            \
  }
FSDP_ARITHMETIC(AdamW)
FSDP_ARITHMETIC(Adam)
FSDP_ARITHMETIC(Sgd)
#undef FSDP_ARITHMETIC

static const UpdateArithmetic &getArithmetic(element::AdamW) {
  static constexpr UpdateArithmetic own{updateAdamWMoments, updateAdamWParam};
  return own;
}
static const UpdateArithmetic &getArithmetic(element::Adam) {
  static constexpr UpdateArithmetic own{updateAdamMoments, updateAdamParam};
  return own;
}
static const UpdateArithmetic &getArithmetic(element::Sgd) {
  static constexpr UpdateArithmetic own{updateSgdMoments, updateSgdParam};
  return own;
}

const UpdateArithmetic &fsdp::getArithmetic(OptimizerKind kind) {
  return *visitArithmetic(
      kind, [](auto arithmetic) { return &::getArithmetic(arithmetic); });
}
