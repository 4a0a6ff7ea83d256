//===- GradientNorm.cpp - The global norm of sharded gradients -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/shard/GradientNorm.h"

#include "ir/aten/Aten.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace fsdp;

static Value buildScalarOp(OpBuilder &builder, Location loc, StringRef name,
                           ArrayRef<aten::TensorArgument> tensors,
                           ArrayRef<NamedAttribute> arguments, Type element) {
  return aten::buildAtenOp(builder, loc, name, tensors, arguments,
                           RankedTensorType::get({}, element))
      ->getResult(0);
}

static NamedAttribute toF64(OpBuilder &builder, StringRef name, double value) {
  return builder.getNamedAttr(name, builder.getF64FloatAttr(value));
}

static NamedAttribute toDType(OpBuilder &builder, Type type) {
  return builder.getNamedAttr("dtype", TypeAttr::get(type));
}

/// Of gradients of one element type.
static Value buildGroup(OpBuilder &builder, Location loc,
                        ArrayRef<Value> gradients, Type element) {
  Type wide = element.isF64() ? element : builder.getF32Type();
  SmallVector<NamedAttribute> arguments;
  if (wide != element)
    arguments.push_back(toDType(builder, wide));
  Type scalar = RankedTensorType::get({}, wide);
  SmallVector<Type> types(gradients.size(), scalar);
  Operation *norms =
      aten::buildAtenOp(builder, loc, "aten._foreach_norm.Scalar",
                        aten::TensorArgument(gradients), arguments, types);
  SmallVector<Value> results(norms->getResults());
  int64_t count = results.size();
  Type vector = RankedTensorType::get({count}, wide);
  Value stack = aten::buildAtenOp(
                    builder, loc, "aten.stack",
                    aten::TensorArgument(ArrayRef<Value>(results)), {}, vector)
                    ->getResult(0);
  Value squares = aten::buildAtenOp(builder, loc, "aten.mul.Tensor",
                                    {stack, stack}, {}, vector)
                      ->getResult(0);
  Value sum = buildScalarOp(builder, loc, "aten.sum", {squares}, {}, wide);
  if (wide.isF32())
    return sum;
  return buildScalarOp(builder, loc, "aten._to_copy", {sum},
                       toDType(builder, builder.getF32Type()),
                       builder.getF32Type());
}

Value fsdp::buildSumOfSquares(OpBuilder &builder, Location loc,
                              ValueRange gradients) {
  llvm::MapVector<Type, SmallVector<Value>> groups;
  for (Value gradient : gradients)
    groups[cast<RankedTensorType>(gradient.getType()).getElementType()]
        .push_back(gradient);
  Value total;
  for (auto &[element, members] : groups) {
    Value sum = buildGroup(builder, loc, members, element);
    total = total ? buildScalarOp(builder, loc, "aten.add.Tensor", {total, sum},
                                  {}, builder.getF32Type())
                  : sum;
  }
  return total;
}

Value fsdp::buildNorm(OpBuilder &builder, Location loc, Value meanOfSums,
                      int64_t ranks) {
  Type f32 = builder.getF32Type();
  if (ranks > 1)
    meanOfSums = buildScalarOp(builder, loc, "aten.mul.Scalar", {meanOfSums},
                               toF64(builder, "other", ranks), f32);
  return buildScalarOp(builder, loc, "aten.sqrt", {meanOfSums}, {}, f32);
}

Value fsdp::buildClipDivisor(OpBuilder &builder, Location loc, Value norm,
                             double maxNorm) {
  Type f32 = builder.getF32Type();
  Value above = buildScalarOp(builder, loc, "aten.add.Scalar", {norm},
                              toF64(builder, "other", 1e-6), f32);
  Value ratio = buildScalarOp(builder, loc, "aten.div.Scalar", {above},
                              toF64(builder, "other", maxNorm), f32);
  return buildScalarOp(builder, loc, "aten.clamp_min", {ratio},
                       toF64(builder, "min", 1.0), f32);
}
