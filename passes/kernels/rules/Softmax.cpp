//===- Softmax.cpp - Softmax, its logarithm, and their gradients ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/kernels/Rules.h"

#include <limits>

using namespace mlir;
using namespace fsdp;
using plan::DType;

/// Of another type than its operand's it is a kernel of GPUs'.
static bool keepsType(KernelCall &call, StringRef name) {
  auto type = cast<RankedTensorType>(call.getValue(name).getType());
  return isFloat(call.getResultType()) &&
         toKernelDType(type.getElementType()) == call.getResultType();
}

static LogicalResult emitSoftmax(KernelCall &call) {
  if (!keepsType(call, "self"))
    return failure();
  Term x = call.getNumber("self");
  Term power = exp(x - maxColumns(call, x));
  call.give(power / sumColumns(call, power));
  return success();
}

/// Of a row of -infinity zeros, not NaNs.
static LogicalResult emitSafeSoftmax(KernelCall &call) {
  if (!keepsType(call, "self"))
    return failure();
  Term x = call.getNumber("self"), most = maxColumns(call, x);
  Term power = exp(x - most);
  Term isEmpty = most == -std::numeric_limits<double>::infinity();
  call.give(select(isEmpty, call.number(0), power / sumColumns(call, power)));
  return success();
}

static LogicalResult emitLogSoftmax(KernelCall &call) {
  if (!keepsType(call, "self"))
    return failure();
  Term x = call.getNumber("self");
  Term most = maxColumns(call, x);
  // The kernel keeps both in the tensor's type between its loops.
  auto keep = [&](Term term) {
    return call.builder.round(term, call.getResultType());
  };
  Term size = keep(log(keep(sumColumns(call, exp(x - most)))));
  call.give(x - most - size);
  return success();
}

static LogicalResult emitSoftmaxBackward(KernelCall &call) {
  if (!keepsType(call, "grad_output") || !keepsType(call, "output"))
    return failure();
  Term gradient = call.getNumber("grad_output"), y = call.getNumber("output");
  call.give((gradient - sumColumns(call, gradient * y)) * y);
  return success();
}

static LogicalResult emitLogSoftmaxBackward(KernelCall &call) {
  if (!keepsType(call, "grad_output") || !keepsType(call, "output"))
    return failure();
  Term gradient = call.getNumber("grad_output"), y = call.getNumber("output");
  call.give(gradient - exp(y) * sumColumns(call, gradient));
  return success();
}

ArrayRef<KernelRule> fsdp::getSoftmaxRules() {
  static constexpr KernelRule rules[] = {
      {"_softmax", frameLastDim, emitSoftmax},
      {"_safe_softmax", frameLastDim, emitSafeSoftmax},
      {"_log_softmax", frameLastDim, emitLogSoftmax},
      {"_softmax_backward_data", frameLastDim, emitSoftmaxBackward},
      {"_log_softmax_backward_data", frameLastDim, emitLogSoftmaxBackward},
  };
  return rules;
}
