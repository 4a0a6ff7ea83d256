//===- NonFinite.cpp - Updates that a NaN leaves out ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/shard/NonFinite.h"

#include "passes/analysis/TensorBuilders.h"

#include "mlir/IR/BuiltinTypes.h"

using namespace mlir;
using namespace fsdp;

Value fsdp::buildFoundInf(OpBuilder &builder, Location loc, Value loss,
                          Value norm) {
  Type f32 = builder.getF32Type();
  auto build = [&](StringRef name, ArrayRef<aten::TensorArgument> operands,
                   ArrayRef<NamedAttribute> attributes, Type element) {
    return buildScalarOp(builder, loc, name, operands, attributes, element);
  };
  // 0 where the number is finite, else NaN, the one that is not itself.
  auto probe = [&](Value value) {
    return build("aten.mul.Scalar", {value},
                 builder.getNamedAttr("other", builder.getF64FloatAttr(0)),
                 f32);
  };
  Value both = build("aten.add.Tensor", {probe(loss), probe(norm)}, {}, f32);
  Value isNan = build("aten.ne.Tensor", {both, both}, {}, builder.getI1Type());
  return build(
      "aten._to_copy", {isNan},
      builder.getNamedAttr("dtype", TypeAttr::get(builder.getF32Type())), f32);
}

Value fsdp::countUpdate(OpBuilder &builder, Location loc, Value updates,
                        Value foundInf) {
  NamedAttribute one =
      builder.getNamedAttr("other", builder.getF64FloatAttr(1));
  Value next = aten::buildAtenOp(builder, loc, "aten.add.Scalar", {updates},
                                 one, updates.getType())
                   ->getResult(0);
  if (!foundInf)
    return next;
  return aten::buildAtenOp(builder, loc, "aten.sub.Tensor", {next, foundInf},
                           {}, updates.getType())
      ->getResult(0);
}
