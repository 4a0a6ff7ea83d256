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
  TypeRange types = ValueRange(operands.params).getTypes();
  return AdamLikeOp::create(builder, loc, types, types, types, operands.params,
                            operands.grads, operands.moments[0],
                            operands.moments[1], operands.step, operands.lr,
                            operands.gradScale, operands.foundInf,
                            builder.getF64FloatAttr(settings.beta1),
                            builder.getF64FloatAttr(settings.beta2),
                            builder.getF64FloatAttr(settings.eps),
                            builder.getF64FloatAttr(settings.weightDecay));
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
      operands.params, operands.grads, buffers, operands.lr, operands.gradScale,
      operands.foundInf, builder.getF64FloatAttr(settings.momentum),
      builder.getF64FloatAttr(settings.weightDecay),
      settings.nesterov ? builder.getUnitAttr() : UnitAttr());
}

ArrayRef<OptimizerKind> fsdp::getOptimizerKinds() {
  static constexpr OptimizerKind kinds[] = {
      {"adamw", true, getAdamMoments, buildAdam<AdamWOp>},
      {"adam", true, getAdamMoments, buildAdam<AdamOp>},
      {"sgd", false, getSgdMoments, buildSgd},
  };
  return kinds;
}
