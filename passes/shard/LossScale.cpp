//===- LossScale.cpp - What keeps gradients in f16 from vanishing ---------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/shard/LossScale.h"

#include "ir/fsdp/Fsdp.h"
#include "passes/analysis/TensorBuilders.h"

#include "mlir/IR/BuiltinTypes.h"

using namespace mlir;
using namespace fsdp;

namespace {
/// Builds ops on 0-d f32 tensors.
class ScalarBuilder {
public:
  ScalarBuilder(OpBuilder &builder, Location loc)
      : builder(builder), loc(loc) {}

  Value multiply(Value a, Value b) { return build("aten.mul.Tensor", {a, b}); }
  Value divide(Value a, Value b) { return build("aten.div.Tensor", {a, b}); }
  Value add(Value a, double b) {
    return build("aten.add.Scalar", {a}, number("other", b));
  }
  Value limit(Value a, double most) {
    return build("aten.clamp_max", {a}, number("max", most));
  }
  Value complement(Value a) {
    return build("aten.rsub.Scalar", {a}, number("other", 1));
  }
  /// 1 where `flag` is 0, `factor` where it is 1.
  Value choose(Value flag, double factor) {
    Value above = build("aten.mul.Scalar", {flag}, number("other", factor - 1));
    return add(above, 1);
  }
  /// 1 where `a` is at least `least`, else 0.
  Value isAtLeast(Value a, int64_t least) {
    Value flag = build("aten.ge.Scalar", {a}, number("other", double(least)),
                       builder.getI1Type());
    return build(
        "aten._to_copy", {flag},
        builder.getNamedAttr("dtype", TypeAttr::get(builder.getF32Type())));
  }

private:
  NamedAttribute number(StringRef name, double value) {
    return builder.getNamedAttr(name, builder.getF64FloatAttr(value));
  }
  Value build(StringRef name, ArrayRef<aten::TensorArgument> operands,
              ArrayRef<NamedAttribute> attributes = {}, Type element = {}) {
    return buildScalarOp(builder, loc, name, operands, attributes,
                         element ? element : Type(builder.getF32Type()));
  }

  OpBuilder &builder;
  Location loc;
};
} // namespace

FailureOr<LossScaling> fsdp::getLossScaling(ModuleOp module,
                                            bool skipsNonFinite) {
  if (llvm::none_of(module.getOps<StateOp>(), [](StateOp state) {
        return state.getRole() == Role::LossScale;
      }))
    return LossScaling();
  auto told = getSetting<LossScaleAttr>(module);
  if (told.getInterval() != 0 && !skipsNonFinite)
    return module.emitError("expected '#fsdp.on_nonfinite<skip>' with a loss "
                            "scale that changes: its overflows are no updates");
  return LossScaling{told.getGrowth().getValueAsDouble(),
                     told.getBackoff().getValueAsDouble(), told.getInterval()};
}

Value fsdp::unscaleNorm(OpBuilder &builder, Location loc, Value norm,
                        Value scale) {
  return ScalarBuilder(builder, loc).divide(norm, scale);
}

Value fsdp::joinScale(OpBuilder &builder, Location loc, Value divisor,
                      Value scale) {
  return divisor ? ScalarBuilder(builder, loc).multiply(divisor, scale) : scale;
}

std::pair<Value, Value> fsdp::buildScaleUpdate(OpBuilder &builder, Location loc,
                                               Value scale, Value count,
                                               Value foundInf,
                                               const LossScaling &scaling) {
  ScalarBuilder build(builder, loc);
  // One after the other: the order of a call's arguments is the compiler's.
  Value counted = build.add(count, 1);
  Value isFinite = build.complement(foundInf);
  Value updates = build.multiply(counted, isFinite);
  Value grows = build.isAtLeast(updates, scaling.interval);
  Value up = build.choose(grows, scaling.growth);
  Value down = build.choose(foundInf, scaling.backoff);
  Value factor = build.multiply(up, down);
  // Growing ends at the greatest power of two.
  Value next = build.limit(build.multiply(scale, factor), 0x1p127);
  Value isKept = build.complement(grows);
  return {next, build.multiply(updates, isKept)};
}
