//===- Averages.cpp - Averages of what is trained -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/shard/Averages.h"

#include "passes/analysis/TensorBuilders.h"

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace fsdp;

Type fsdp::getAverageElement(StateOp param, EmaAttr ema) {
  Type own = param.getGlobalType().getElementType();
  if (ema.getKeepsType() || !(own.isF16() || own.isBF16()))
    return own;
  return Builder(param.getContext()).getF32Type();
}

/// Itself if it has that element type.
static Value cast(OpBuilder &builder, Location loc, Value value, Type element) {
  RankedTensorType type = getTensor(value);
  if (type.getElementType() == element)
    return value;
  return aten::buildAtenOp(
             builder, loc, "aten._to_copy", {value},
             builder.getNamedAttr("dtype", TypeAttr::get(element)),
             RankedTensorType::get(type.getShape(), element,
                                   type.getEncoding()))
      ->getResult(0);
}

namespace {
/// Builds ops on 0-d f64 tensors.
class Numbers {
public:
  Numbers(OpBuilder &builder, Location loc) : builder(builder), loc(loc) {}

  Value widen(Value a) { return cast(builder, loc, a, builder.getF64Type()); }
  Value subtract(Value a, double b) {
    return build("aten.sub.Scalar", {a}, "other", b);
  }
  Value add(Value a, double b) {
    return build("aten.add.Scalar", {a}, "other", b);
  }
  Value multiply(Value a, Value b) { return build("aten.mul.Tensor", {a, b}); }
  Value divide(Value a, Value b) { return build("aten.div.Tensor", {a, b}); }
  Value divide(Value a, double b) {
    return build("aten.div.Scalar", {a}, "other", b);
  }
  Value raise(Value a, double power) {
    return build("aten.pow.Tensor_Scalar", {a}, "exponent", power);
  }
  Value rest(Value a, double b) {
    return build("aten.remainder.Scalar", {a}, "other", b);
  }
  Value atLeast(Value a, double b) {
    return build("aten.clamp_min", {a}, "min", b);
  }
  Value atMost(Value a, double b) {
    return build("aten.clamp_max", {a}, "max", b);
  }
  Value complement(Value a) {
    return build("aten.rsub.Scalar", {a}, "other", 1);
  }
  Value multiply(Value a, double b) {
    return build("aten.mul.Scalar", {a}, "other", b);
  }
  /// 1 where it holds, else 0.
  Value isAbove(Value a, double b) { return test("aten.gt.Scalar", a, b); }
  Value isEqual(Value a, double b) { return test("aten.eq.Scalar", a, b); }

private:
  NamedAttribute number(StringRef name, double value) {
    return builder.getNamedAttr(name, builder.getF64FloatAttr(value));
  }
  Value build(StringRef name, ArrayRef<aten::TensorArgument> operands) {
    return buildScalarOp(builder, loc, name, operands, {},
                         builder.getF64Type());
  }
  Value build(StringRef name, ArrayRef<aten::TensorArgument> operands,
              StringRef argument, double value) {
    return buildScalarOp(builder, loc, name, operands, number(argument, value),
                         builder.getF64Type());
  }
  Value test(StringRef name, Value a, double b) {
    return widen(buildScalarOp(builder, loc, name, {a}, number("other", b),
                               builder.getI1Type()));
  }

  OpBuilder &builder;
  Location loc;
};
} // namespace

/// The decay of averaging number `t`, from 1 on; null: it is that of all.
static Value buildDecay(Numbers &build, EmaAttr ema, Value t) {
  if (ema.getWarmup() == EmaWarmup::None)
    return {};
  double most = ema.getDecay().getValueAsDouble();
  Value from0 = build.atLeast(t, 0);
  switch (ema.getWarmup()) {
  case EmaWarmup::None:
    break;
  case EmaWarmup::Ratio: {
    Value above = build.add(from0, 1);
    return build.atMost(build.divide(above, build.add(from0, 10)), most);
  }
  case EmaWarmup::Power: {
    Value base =
        build.add(build.divide(from0, ema.getGamma().getValueAsDouble()), 1);
    Value left = build.raise(base, -ema.getPower().getValueAsDouble());
    return build.atMost(build.complement(left), most);
  }
  }
  llvm_unreachable("all warm-ups have a formula");
}

AverageBuilder::AverageBuilder(OpBuilder &builder, Location loc, EmaAttr ema,
                               Value step, Value foundInf)
    : builder(builder), loc(loc) {
  Numbers build(builder, loc);
  Value number = build.widen(step);
  auto every = static_cast<double>(ema.getEvery());
  // Above 0 behind the first time, which takes the parameter as it is.
  Value t = build.divide(
      build.subtract(number, static_cast<double>(ema.getAfter()) + every),
      every);
  Value isLater = build.isAbove(t, 0);
  Value decay = buildDecay(build, ema, t);
  decay = decay ? build.multiply(isLater, decay)
                : build.multiply(isLater, ema.getDecay().getValueAsDouble());
  Value weight = build.complement(decay);
  if (every > 1)
    weight =
        build.multiply(weight, build.isEqual(build.rest(number, every), 0));
  if (foundInf)
    weight = build.multiply(weight, build.complement(build.widen(foundInf)));
  weights.push_back(weight);
}

/// What averages of that type are computed in.
static Type getWide(Type average) {
  Type element = getElementTypeOrSelf(average);
  return element.isF64() ? element : Float32Type::get(average.getContext());
}

Value AverageBuilder::findWeight(Type average) {
  Type wide = getWide(average);
  for (Value weight : weights)
    if (getElementTypeOrSelf(weight) == wide)
      return weight;
  return weights.emplace_back(cast(builder, loc, weights.front(), wide));
}

Value AverageBuilder::build(Value average, Value param) {
  Type element = getElementTypeOrSelf(average), wide = getWide(element);
  Value from = cast(builder, loc, average, wide);
  Value to = cast(builder, loc, param, wide);
  Value sum =
      aten::buildAtenOp(builder, loc, "aten.lerp.Tensor",
                        {from, to, findWeight(element)}, {}, from.getType())
          ->getResult(0);
  return cast(builder, loc, sum, element);
}
