//===- Activations.cpp - Activation functions and their gradients ---------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// LibTorch's kernels compute them of f32 for bf16 and halves, too, and round
// once.
//
//===----------------------------------------------------------------------===//

#include "ir/aten/Aten.h"
#include "passes/kernels/Rules.h"

#include <cmath>

using namespace mlir;
using namespace fsdp;
using plan::DType;

namespace {
constexpr double kRoot2 = 1.41421356237309504880;       // of 2
constexpr double kTwoByRootPi = 1.12837916709551257390; // 2 / sqrt(pi)
constexpr double kCubic = 0.044715;                     // of gelu by tanh
} // namespace

/// log(1 + x) without the digits that 1 + x loses.
static Term log1p(Term x) {
  Term sum = 1.0 + x, part = sum - 1.0;
  Term whole = log(sum);
  return select(sum == 1.0, x, select(part == x, whole, whole * (x / part)));
}

/// exp(x) - 1, the same way.
static Term expm1(Term x) {
  Term power = exp(x), less = power - 1.0;
  Term corrected = less * (x / log(power));
  return select(power == 1.0, x, select(abs(x) < 1.0, corrected, less));
}

static Term sigmoid(Term x) { return 1.0 / (1.0 + exp(-x)); }

/// Fails for integers, which have other kernels.
static bool hasNumbers(KernelCall &call) {
  return isFloat(call.getCommonType());
}

/// A number as the kernel reads it: f32, also for bf16 and halves.
static Term getParameter(KernelCall &call, StringRef name, double otherwise) {
  return call.number(call.getStatic(name).value_or(otherwise));
}

static LogicalResult emitSigmoid(KernelCall &call) {
  if (!hasNumbers(call))
    return failure();
  call.give(sigmoid(call.get("self")));
  return success();
}

static LogicalResult emitSigmoidBackward(KernelCall &call) {
  if (!hasNumbers(call))
    return failure();
  Term y = call.get("output");
  // The kernel for halves alone rounds each operation.
  auto round = [&](Term term) {
    return call.getCommonType() == DType::f16
               ? call.builder.round(term, DType::f16)
               : term;
  };
  call.give(round(call.get("grad_output") * round(1.0 - y)) * y);
  return success();
}

static LogicalResult emitTanh(KernelCall &call) {
  if (!hasNumbers(call))
    return failure();
  call.give(tanh(call.get("self")));
  return success();
}

static LogicalResult emitTanhBackward(KernelCall &call) {
  if (!hasNumbers(call))
    return failure();
  Term y = call.get("output");
  call.give(call.get("grad_output") * fma(-y, y, call.number(1)));
  return success();
}

static LogicalResult emitRelu(KernelCall &call) {
  if (!hasNumbers(call))
    return failure();
  call.give(maximum(call.number(0), call.get("self"))); // -0 stays
  return success();
}

static LogicalResult emitThresholdBackward(KernelCall &call) {
  if (!hasNumbers(call))
    return failure();
  Term bound = getParameter(call, "threshold", 0);
  call.give(select(call.get("self") <= bound, call.number(0),
                   call.get("grad_output")));
  return success();
}

static LogicalResult emitSilu(KernelCall &call) {
  if (!hasNumbers(call))
    return failure();
  Term x = call.get("self");
  call.give(x / (1.0 + exp(-x)));
  return success();
}

static LogicalResult emitSiluBackward(KernelCall &call) {
  if (!hasNumbers(call))
    return failure();
  Term x = call.get("self"), part = sigmoid(x);
  call.give(call.get("grad_output") * part * (1.0 + x * (1.0 - part)));
  return success();
}

static bool isTanhGelu(KernelCall &call) {
  auto how = dyn_cast_or_null<StringAttr>(
      aten::getStaticArgument(call.op, "approximate"));
  return how && how.getValue() == "tanh";
}

static LogicalResult emitGelu(KernelCall &call) {
  if (!hasNumbers(call))
    return failure();
  Term x = call.get("self");
  if (isTanhGelu(call)) {
    Term inner = (kRoot2 * kTwoByRootPi * 0.5) * (x + kCubic * (x * x * x));
    call.give(0.5 * x * (1.0 + tanh(inner)));
  } else {
    call.give(x * 0.5 * (1.0 + erf(x * (1 / kRoot2))));
  }
  return success();
}

static Term tanhGeluSlope(Term x) {
  double beta = kRoot2 * kTwoByRootPi * 0.5;
  Term square = x * x;
  Term inner = tanh(beta * (x + kCubic * (square * x)));
  Term left = 0.5 * (1.0 + inner);
  Term slope = beta * (1.0 + (3 * kCubic) * square);
  return left + 0.5 * x * (1.0 - inner * inner) * slope;
}

static LogicalResult emitGeluBackward(KernelCall &call) {
  if (!hasNumbers(call))
    return failure();
  Term x = call.get("self"), gradient = call.get("grad_output");
  if (isTanhGelu(call)) {
    call.give(gradient * tanhGeluSlope(x));
    return success();
  }
  Term below = 0.5 * (1.0 + erf(x * (1 / kRoot2)));
  Term density = (kTwoByRootPi / kRoot2 * 0.5) * exp(x * x * -0.5);
  call.give(gradient * (below + x * density));
  return success();
}

static LogicalResult emitSoftplus(KernelCall &call) {
  if (!hasNumbers(call))
    return failure();
  Term x = call.get("self"), beta = getParameter(call, "beta", 1);
  Term scaled = x * beta;
  call.give(select(getParameter(call, "threshold", 20) < scaled, x,
                   log1p(exp(scaled)) / beta));
  return success();
}

static LogicalResult emitSoftplusBackward(KernelCall &call) {
  if (!hasNumbers(call))
    return failure();
  Term x = call.get("self"), gradient = call.get("grad_output");
  Term scaled = x * getParameter(call, "beta", 1);
  Term power = exp(scaled);
  call.give(select(getParameter(call, "threshold", 20) < scaled, gradient,
                   gradient * power / (power + 1.0)));
  return success();
}

static LogicalResult emitLeakyRelu(KernelCall &call) {
  if (!hasNumbers(call))
    return failure();
  Term x = call.get("self");
  bool isBackward = call.hasTensor("grad_output");
  Term factor = select(call.number(0) < x, call.number(1),
                       getParameter(call, "negative_slope", 0.01));
  call.give((isBackward ? call.get("grad_output") : x) * factor);
  return success();
}

/// The product of numbers is one of f32.
static Term getEluFactor(KernelCall &call) {
  auto alpha = static_cast<float>(call.getStatic("alpha").value_or(1));
  auto scale = static_cast<float>(call.getStatic("scale").value_or(1));
  return call.number(alpha * scale);
}

static LogicalResult emitElu(KernelCall &call) {
  if (!hasNumbers(call))
    return failure();
  Term x = call.get("self");
  Term below = expm1(x * getParameter(call, "input_scale", 1));
  call.give(select(call.number(0) < x, x * getParameter(call, "scale", 1),
                   below * getEluFactor(call)));
  return success();
}

static LogicalResult emitEluBackward(KernelCall &call) {
  if (!hasNumbers(call))
    return failure();
  Term x = call.get("self_or_result"), gradient = call.get("grad_output");
  Term inner = getParameter(call, "input_scale", 1);
  Term factor = getEluFactor(call);
  Term below = call.getStatic("is_result").value_or(0) != 0
                   ? gradient * inner * (x + factor)
                   : gradient * inner * factor * exp(x * inner);
  call.give(select(call.number(0) < x,
                   gradient * getParameter(call, "scale", 1), below));
  return success();
}

static LogicalResult emitHardtanhBackward(KernelCall &call) {
  if (!hasNumbers(call))
    return failure();
  Term x = call.get("self");
  Term isInside = (getParameter(call, "min_val", -1) < x) &
                  (x < getParameter(call, "max_val", 1));
  call.give(select(isInside, call.get("grad_output"), call.number(0)));
  return success();
}

/// hardtanh is a clamp whose bounds are in the type of the tensor.
static LogicalResult emitHardtanh(KernelCall &call) {
  if (!hasNumbers(call))
    return failure();
  Term least = call.builder.round(getParameter(call, "min_val", -1),
                                  call.getCommonType());
  Term most = call.builder.round(getParameter(call, "max_val", 1),
                                 call.getCommonType());
  call.give(minimum(most, maximum(least, call.get("self"))));
  return success();
}

/// The second result is what the gradient is made of; on GPUs it has no
/// elements and is unknown here.
static LogicalResult emitLogSigmoid(KernelCall &call) {
  if (!hasNumbers(call))
    return failure();
  Term x = call.get("self"), power = exp(-abs(x));
  call.give(minimum(x, call.number(0)) - log1p(power));
  call.give(power);
  return success();
}

static LogicalResult emitLogSigmoidBackward(KernelCall &call) {
  if (!hasNumbers(call))
    return failure();
  Term isBelow = call.get("self") < 0.0, power = call.get("buffer");
  Term one = call.number(1), part = power / (1.0 + power);
  Term slope =
      select(isBelow, one, call.number(0)) - select(isBelow, one, -one) * part;
  call.give(slope * call.get("grad_output"));
  return success();
}

ArrayRef<KernelRule> fsdp::getActivationRules() {
  static constexpr KernelRule rules[] = {
      {"sigmoid", framePointwise, emitSigmoid},
      {"sigmoid_backward", framePointwise, emitSigmoidBackward},
      {"tanh", framePointwise, emitTanh},
      {"tanh_backward", framePointwise, emitTanhBackward},
      {"relu", framePointwise, emitRelu},
      {"threshold_backward", framePointwise, emitThresholdBackward},
      {"silu", framePointwise, emitSilu},
      {"silu_backward", framePointwise, emitSiluBackward},
      {"gelu", framePointwise, emitGelu},
      {"gelu_backward", framePointwise, emitGeluBackward},
      {"softplus", framePointwise, emitSoftplus},
      {"softplus_backward", framePointwise, emitSoftplusBackward},
      {"log_sigmoid_forward", framePointwise, emitLogSigmoid},
      {"log_sigmoid_backward", framePointwise, emitLogSigmoidBackward},
      {"leaky_relu", framePointwise, emitLeakyRelu},
      {"leaky_relu_backward", framePointwise, emitLeakyRelu},
      {"elu", framePointwise, emitElu},
      {"elu_backward", framePointwise, emitEluBackward},
      {"hardtanh", framePointwise, emitHardtanh},
      {"hardtanh_backward", framePointwise, emitHardtanhBackward},
  };
  return rules;
}
