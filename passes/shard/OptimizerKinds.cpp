//===- OptimizerKinds.cpp - The optimizers that are known ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/shard/OptimizerKinds.h"

using namespace mlir;
using namespace fsdp;

static SmallVector<StringRef, 2>
getAdamMoments(const InsertOptimizerOptions &) {
  return {"exp_avg", "exp_avg_sq"};
}

template <typename AdamLikeOp>
static Operation *buildAdam(OpBuilder &builder, Location loc,
                            const UpdateOperands &operands,
                            const InsertOptimizerOptions &options) {
  TypeRange types = ValueRange(operands.params).getTypes();
  return AdamLikeOp::create(builder, loc, types, types, types, operands.params,
                            operands.grads, operands.moments[0],
                            operands.moments[1], operands.step, operands.lr,
                            operands.gradScale, /*found_inf=*/Value(),
                            builder.getF64FloatAttr(options.beta1),
                            builder.getF64FloatAttr(options.beta2),
                            builder.getF64FloatAttr(options.eps),
                            builder.getF64FloatAttr(options.weightDecay));
}

static SmallVector<StringRef, 2>
getSgdMoments(const InsertOptimizerOptions &options) {
  if (options.momentum == 0)
    return {};
  return {"momentum_buffer"};
}

static Operation *buildSgd(OpBuilder &builder, Location loc,
                           const UpdateOperands &operands,
                           const InsertOptimizerOptions &options) {
  ValueRange buffers;
  if (!operands.moments.empty())
    buffers = operands.moments[0];
  return SgdOp::create(
      builder, loc, ValueRange(operands.params).getTypes(), buffers.getTypes(),
      operands.params, operands.grads, buffers, operands.lr, operands.gradScale,
      /*found_inf=*/Value(), builder.getF64FloatAttr(options.momentum),
      builder.getF64FloatAttr(options.weightDecay),
      options.nesterov ? builder.getUnitAttr() : UnitAttr());
}

ArrayRef<OptimizerKind> fsdp::getOptimizerKinds() {
  static constexpr OptimizerKind kinds[] = {
      {"adamw", true, getAdamMoments, buildAdam<AdamWOp>},
      {"adam", true, getAdamMoments, buildAdam<AdamOp>},
      {"sgd", false, getSgdMoments, buildSgd},
  };
  return kinds;
}
