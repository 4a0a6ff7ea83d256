//===- Norms.cpp - Layer norms and their gradients ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/aten/Aten.h"
#include "passes/kernels/Rules.h"

#include <limits>

using namespace mlir;
using namespace fsdp;
using plan::DType;

static KernelFrame frameRows(Operation *op, ArrayRef<int64_t> shape,
                             int64_t columns) {
  KernelFrame frame;
  frame.shape = KernelShape(shape);
  frame.columns = columns;
  frame.operands.assign(op->getNumOperands(), frame.shape);
  frame.isRowSum.assign(op->getNumResults(), false);
  return frame;
}

static int64_t countNormalized(Operation *op) {
  return countElements(getIntegers(op, "normalized_shape"));
}

static FailureOr<KernelFrame> frameNorm(Operation *op) {
  return frameRows(op, shapeOf(op->getOperand(0)), countNormalized(op));
}

/// The mean of squared distances from the mean, in two passes.
static LogicalResult emitLayerNorm(KernelCall &call) {
  if (!isFloat(call.getResultType()))
    return failure();
  Term x = call.getNumber("input");
  double count = static_cast<double>(call.columns);
  Term mean = sumColumns(call, x) / count, apart = x - mean;
  Term variance = sumColumns(call, apart * apart) / count;
  Term rstd = 1.0 / sqrt(variance + *call.getStatic("eps"));
  Term y = fma(x, rstd, -rstd * mean);
  if (call.hasTensor("weight"))
    y = call.hasTensor("bias")
            ? fma(y, call.getNumber("weight"), call.getNumber("bias"))
            : y * call.getNumber("weight");
  else if (call.hasTensor("bias"))
    y = y + call.getNumber("bias");
  call.give(y);
  call.give(mean);
  call.give(rstd);
  return success();
}

/// Results that nobody asks for are of no tensor type and unknown to kernels.
static FailureOr<KernelFrame> frameNormBackward(Operation *op) {
  KernelFrame frame =
      frameRows(op, shapeOf(op->getOperand(0)), countNormalized(op));
  if (op->getNumResults() != 3)
    return failure();
  frame.isRowSum[1] = frame.isRowSum[2] = true;
  return frame;
}

static LogicalResult emitLayerNormBackward(KernelCall &call) {
  if (!isFloat(call.getCommonType()))
    return failure();
  Term gradient = call.getNumber("grad_out"), x = call.getNumber("input");
  Term mean = call.getNumber("mean"), rstd = call.getNumber("rstd");
  Term scaled =
      call.hasTensor("weight") ? gradient * call.getNumber("weight") : gradient;
  double scale = 1.0f / static_cast<float>(call.columns);
  Term ds = sumColumns(call, scaled * x), db = sumColumns(call, scaled);
  Term b = (db * mean - ds) * rstd * rstd * rstd * scale;
  Term c = -b * mean - db * rstd * scale;
  call.give(rstd * scaled + b * x + c);
  Term normal = fma(rstd, x, -rstd * mean);
  call.giveRowSum(call.builder.spread(gradient * normal, call.columns));
  call.giveRowSum(call.builder.spread(gradient, call.columns));
  return success();
}

/// x over the root of the mean of squares.
static LogicalResult emitRmsNorm(KernelCall &call) {
  if (!isFloat(call.getResultType()))
    return failure();
  // The operator is a GPU's, which takes that of the type it sums in
  // (layer_norm_kernel.cu: _fused_rms_norm_cuda).
  double least = call.getStatic("eps").value_or(
      double{std::numeric_limits<float>::epsilon()});
  Term x = call.getNumber("input");
  Term mean = sumColumns(call, x * x) / static_cast<double>(call.columns);
  Term rstd = 1.0 / sqrt(mean + least);
  Term y = x * rstd;
  call.give(call.hasTensor("weight") ? y * call.getNumber("weight") : y);
  call.give(rstd);
  return success();
}

static FailureOr<KernelFrame> frameRmsBackward(Operation *op) {
  KernelFrame frame =
      frameRows(op, shapeOf(op->getOperand(0)), countNormalized(op));
  if (op->getNumResults() != 2)
    return failure();
  frame.isRowSum[1] = true;
  return frame;
}

static LogicalResult emitRmsNormBackward(KernelCall &call) {
  if (!isFloat(call.getCommonType()))
    return failure();
  Term gradient = call.getNumber("grad_out"), x = call.getNumber("input");
  Term rstd = call.getNumber("rstd"), normal = x * rstd;
  Term scaled =
      call.hasTensor("weight") ? gradient * call.getNumber("weight") : gradient;
  Term part =
      sumColumns(call, scaled * normal) / static_cast<double>(call.columns);
  call.give((scaled - normal * part) * rstd);
  call.giveRowSum(call.builder.spread(gradient * normal, call.columns));
  return success();
}

ArrayRef<KernelRule> fsdp::getNormRules() {
  static constexpr KernelRule rules[] = {
      {"native_layer_norm", frameNorm, emitLayerNorm},
      {"native_layer_norm_backward", frameNormBackward, emitLayerNormBackward},
      {"_fused_rms_norm", frameNorm, emitRmsNorm},
      {"_fused_rms_norm_backward", frameRmsBackward, emitRmsNormBackward},
  };
  return rules;
}
