//===- Arithmetic.cpp - Sums, products and powers of elements -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/aten/Aten.h"
#include "passes/kernels/Rules.h"

#include <limits>

using namespace mlir;
using namespace fsdp;
using plan::DType;

/// What LibTorch's kernels for bf16 and halves read with all its digits where
/// it is one element; other operands are rounded to the common type.
static Term getFactor(KernelCall &call, StringRef name) {
  if (!isFloat(call.getCommonType()) || !call.isScalar(name))
    return call.get(name);
  return call.hasTensor(name) ? call.getNumber(name)
                              : call.number(*call.getStatic(name));
}

/// self + alpha * other, or with the two exchanged.
static LogicalResult addScaled(KernelCall &call, Term self, Term other,
                               double sign) {
  double alpha = call.getStatic("alpha").value_or(1) * sign;
  if (call.getCommonType() == DType::i64) {
    Term scaled =
        alpha == 1 ? other
                   : apply(KernelOpKind::mul_integers, other,
                           call.builder.integer(static_cast<int64_t>(alpha)));
    call.give(apply(KernelOpKind::add_integers, self, scaled));
    return success();
  }
  // LibTorch's kernels for bf16 and halves round the product where operands are
  // not contiguous, and not where they are.
  bool isOne = alpha == 1 || alpha == -1;
  if (!isFloat(call.getCommonType()) ||
      (!isOne && call.getCommonType() != DType::f32))
    return failure();
  call.give(alpha == 1    ? self + other
            : alpha == -1 ? self - other
                          : fma(other, call.number(alpha), self));
  return success();
}

static LogicalResult emitAdd(KernelCall &call) {
  return addScaled(call, call.get("self"), call.get("other"), 1);
}
static LogicalResult emitSub(KernelCall &call) {
  return addScaled(call, call.get("self"), call.get("other"), -1);
}
static LogicalResult emitRsub(KernelCall &call) {
  return addScaled(call, call.get("other"), call.get("self"), -1);
}

static LogicalResult emitMul(KernelCall &call) {
  switch (call.getCommonType()) {
  case DType::bool_:
    call.give(call.get("self") & call.get("other"));
    return success();
  case DType::i64:
    call.give(
        apply(KernelOpKind::mul_integers, call.get("self"), call.get("other")));
    return success();
  default:
    if (!isFloat(call.getCommonType()))
      return failure();
    call.give(call.get("self") * getFactor(call, "other"));
    return success();
  }
}

static LogicalResult emitDiv(KernelCall &call) {
  if (!isFloat(call.getCommonType()) ||
      aten::getStaticArgument(call.op, "rounding_mode"))
    return failure();
  call.give(call.get("self") / getFactor(call, "other"));
  return success();
}

/// Of one number, the formula `of`.
template <Term (*of)(Term)>
static LogicalResult emitUnary(KernelCall &call) {
  if (!isFloat(call.getCommonType()))
    return failure();
  call.give(of(call.get("self")));
  return success();
}

static Term negate(Term x) { return -x; }
static Term reciprocal(Term x) { return 1.0 / x; }
static Term rsqrt(Term x) { return 1.0 / sqrt(x); }
static Term square(Term x) { return x * x; }
static Term roundDown(Term x) { return apply(KernelOpKind::floor, x); }
static Term roundUp(Term x) { return apply(KernelOpKind::ceil, x); }
static Term roundToZero(Term x) { return apply(KernelOpKind::trunc, x); }
static Term roundToEven(Term x) { return apply(KernelOpKind::round_even, x); }

/// To whole numbers, which `decimals` of `round` are not.
static LogicalResult emitRound(KernelCall &call) {
  return aten::getStaticArgument(call.op, "decimals")
             ? failure()
             : emitUnary<roundToEven>(call);
}

static LogicalResult emitPow(KernelCall &call) {
  std::optional<double> exponent = call.getStatic("exponent");
  if (!isFloat(call.getCommonType()) || !call.hasTensor("self") || !exponent ||
      call.hasTensor("exponent"))
    return failure();
  Term x = call.get("self");
  // Halves are computed by C's pow(), which knows roots of -infinity.
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  bool isHalf = call.getCommonType() == DType::f16;
  Term isEnd = isHalf ? x == -kInfinity : call.builder.truth(false);
  // The kernel for bf16 alone rounds each operation.
  auto round = [&](Term term) {
    return call.getCommonType() == DType::bf16
               ? call.builder.round(term, DType::bf16)
               : term;
  };
  if (*exponent == 0)
    call.give(call.number(1));
  else if (*exponent == 1)
    call.give(x);
  else if (*exponent == 2)
    call.give(x * x);
  else if (*exponent == 3)
    call.give(round(x * x) * x);
  else if (*exponent == 0.5)
    call.give(select(isEnd, call.number(kInfinity), sqrt(x)));
  else if (*exponent == -0.5)
    call.give(select(isEnd, call.number(0), rsqrt(x)));
  else if (*exponent == -1)
    call.give(1.0 / x);
  else if (*exponent == -2)
    call.give(1.0 / round(x * x));
  else
    return failure();
  return success();
}

static LogicalResult emitMaximum(KernelCall &call) {
  if (!isFloat(call.getCommonType()))
    return failure();
  call.give(maximum(call.get("self"), call.get("other")));
  return success();
}

static LogicalResult emitMinimum(KernelCall &call) {
  if (!isFloat(call.getCommonType()))
    return failure();
  call.give(minimum(call.get("self"), call.get("other")));
  return success();
}

/// `min` and `max` are numbers, either may be missing.
static LogicalResult emitClamp(KernelCall &call) {
  if (!isFloat(call.getCommonType()) || call.hasTensor("min") ||
      call.hasTensor("max"))
    return failure();
  Term x = call.get("self");
  for (StringRef name : {"min", "max"})
    if (std::optional<double> bound = call.getStatic(name)) {
      Term limit =
          call.builder.round(call.number(*bound), call.getCommonType());
      x = name == "min" ? maximum(limit, x) : minimum(limit, x); // keeps -0
    }
  call.give(x);
  return success();
}

static LogicalResult emitAddcmul(KernelCall &call) {
  if (!isFloat(call.getCommonType()))
    return failure();
  Term value = call.number(call.getStatic("value").value_or(1));
  call.give(
      fma(value * call.get("tensor1"), call.get("tensor2"), call.get("self")));
  return success();
}

static LogicalResult emitAddcdiv(KernelCall &call) {
  if (!isFloat(call.getCommonType()))
    return failure();
  Term value = call.number(call.getStatic("value").value_or(1));
  call.give(call.get("self") +
            value * call.get("tensor1") / call.get("tensor2"));
  return success();
}

/// From the end that is nearer.
static LogicalResult emitLerp(KernelCall &call) {
  if (!isFloat(call.getCommonType()))
    return failure();
  Term self = call.get("self"), end = call.get("end");
  Term way = end - self;
  if (call.hasTensor("weight")) {
    Term part = call.get("weight");
    call.give(select(abs(part) < 0.5, fma(part, way, self),
                     fma(-way, call.number(1) - part, end)));
    return success();
  }
  std::optional<double> weight = call.getStatic("weight");
  if (!weight)
    return failure();
  auto part = static_cast<float>(*weight);
  call.give(std::abs(part) < 0.5f ? fma(call.number(part), way, self)
                                  : fma(-way, call.number(1.0f - part), end));
  return success();
}

/// LibTorch multiplies twice.
static LogicalResult emitDropoutBackward(KernelCall &call) {
  Term kept = call.getNumber("grad_output") * call.getNumber("mask");
  call.give(kept * call.number(call.getStatic("scale").value_or(1)));
  return success();
}

ArrayRef<KernelRule> fsdp::getArithmeticRules() {
  static constexpr KernelRule rules[] = {
      {"add", framePointwise, emitAdd},
      {"sub", framePointwise, emitSub},
      {"rsub", framePointwise, emitRsub},
      {"mul", framePointwise, emitMul},
      {"div", framePointwise, emitDiv},
      {"neg", framePointwise, emitUnary<negate>},
      {"abs", framePointwise, emitUnary<abs>},
      {"exp", framePointwise, emitUnary<exp>},
      {"log", framePointwise, emitUnary<log>},
      {"sqrt", framePointwise, emitUnary<sqrt>},
      {"rsqrt", framePointwise, emitUnary<rsqrt>},
      {"reciprocal", framePointwise, emitUnary<reciprocal>},
      {"square", framePointwise, emitUnary<square>},
      {"erf", framePointwise, emitUnary<erf>},
      {"floor", framePointwise, emitUnary<roundDown>},
      {"ceil", framePointwise, emitUnary<roundUp>},
      {"trunc", framePointwise, emitUnary<roundToZero>},
      {"round", framePointwise, emitRound},
      {"pow", framePointwise, emitPow},
      {"maximum", framePointwise, emitMaximum},
      {"minimum", framePointwise, emitMinimum},
      {"clamp", framePointwise, emitClamp},
      {"clamp_min", framePointwise, emitClamp},
      {"clamp_max", framePointwise, emitClamp},
      {"addcmul", framePointwise, emitAddcmul},
      {"addcdiv", framePointwise, emitAddcdiv},
      {"lerp", framePointwise, emitLerp},
      {"native_dropout_backward", framePointwise, emitDropoutBackward},
  };
  return rules;
}
