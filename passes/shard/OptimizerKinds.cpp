//===- OptimizerKinds.cpp - The optimizers that are known ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/shard/OptimizerKinds.h"

using namespace mlir;
using namespace fsdp;

static SmallVector<StringRef, 2> getAdamMoments(const OptimizerSettings &) {
  return {"exp_avg", "exp_avg_sq"};
}

template <typename AdamLikeOp>
static Operation *buildAdam(OpBuilder &builder, Location loc,
                            const UpdateOperands &operands,
                            const OptimizerSettings &settings) {
  auto typesOf = [](ValueRange values) { return values.getTypes(); };
  return AdamLikeOp::create(
      builder, loc, typesOf(operands.params), typesOf(operands.moments[0]),
      typesOf(operands.moments[1]), typesOf(operands.scales), operands.params,
      operands.grads, operands.moments[0], operands.moments[1], operands.scales,
      operands.maxima, operands.step, operands.lr, operands.gradScale,
      operands.foundInf, builder.getF64FloatAttr(settings.beta1),
      builder.getF64FloatAttr(settings.beta2),
      builder.getF64FloatAttr(settings.eps),
      builder.getF64FloatAttr(settings.weightDecay), operands.rounding);
}

static SmallVector<StringRef, 2>
getSgdMoments(const OptimizerSettings &settings) {
  if (settings.momentum == 0)
    return {};
  return {"momentum_buffer"};
}

static Operation *buildSgd(OpBuilder &builder, Location loc,
                           const UpdateOperands &operands,
                           const OptimizerSettings &settings) {
  ValueRange buffers;
  if (!operands.moments.empty())
    buffers = operands.moments[0];
  return SgdOp::create(
      builder, loc, ValueRange(operands.params).getTypes(), buffers.getTypes(),
      ValueRange(operands.scales).getTypes(), operands.params, operands.grads,
      buffers, operands.scales, operands.maxima,
      operands.rounding ? operands.step : Value(), operands.lr,
      operands.gradScale, operands.foundInf,
      builder.getF64FloatAttr(settings.momentum),
      builder.getF64FloatAttr(settings.weightDecay),
      settings.nesterov ? builder.getUnitAttr() : UnitAttr(),
      operands.rounding);
}

const OptimizerRule &fsdp::getOptimizerRule(OptimizerKind kind) {
  static constexpr OptimizerRule adamw{true, getAdamMoments,
                                       buildAdam<AdamWOp>},
      adam{true, getAdamMoments, buildAdam<AdamOp>},
      sgd{false, getSgdMoments, buildSgd};
  switch (kind) {
  case OptimizerKind::AdamW:
    return adamw;
  case OptimizerKind::Adam:
    return adam;
  case OptimizerKind::Sgd:
    return sgd;
  }
  llvm_unreachable("all optimizers have a rule");
}

/// Sets what a group says otherwise.
static void override(double &setting, FloatAttr value) {
  if (value)
    setting = value.getValueAsDouble();
}

SmallVector<OptimizerSettings> fsdp::getGroupSettings(OptimizerAttr optimizer) {
  OptimizerSettings base{optimizer.getLr().getValueAsDouble(),
                         optimizer.getBeta1().getValueAsDouble(),
                         optimizer.getBeta2().getValueAsDouble(),
                         optimizer.getEps().getValueAsDouble(),
                         optimizer.getWeightDecay().getValueAsDouble(),
                         optimizer.getMomentum().getValueAsDouble(),
                         optimizer.getNesterov()};
  SmallVector<OptimizerSettings> all{base};
  for (auto group : getList<ParamGroupAttr>(optimizer.getGroups())) {
    OptimizerSettings &settings = all.emplace_back(base);
    override(settings.lr, group.getLr());
    override(settings.beta1, group.getBeta1());
    override(settings.beta2, group.getBeta2());
    override(settings.eps, group.getEps());
    override(settings.weightDecay, group.getWeightDecay());
    override(settings.momentum, group.getMomentum());
    if (BoolAttr nesterov = group.getNesterov())
      settings.nesterov = nesterov.getValue();
  }
  return all;
}
