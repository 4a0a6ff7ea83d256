//===- Metrics.cpp - Numbers that a step reports --------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/shard/Metrics.h"

#include "ir/aten/Aten.h"

using namespace mlir;
using namespace fsdp;

Value fsdp::widenMetric(OpBuilder &builder, Value number) {
  auto scalar = RankedTensorType::get({}, builder.getF32Type());
  if (number.getType() == scalar)
    return number;
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointAfterValue(number);
  return aten::buildAtenOp(
             builder, number.getLoc(), "aten._to_copy", {number},
             builder.getNamedAttr("dtype", TypeAttr::get(builder.getF32Type())),
             scalar)
      ->getResult(0);
}

Value fsdp::averageGrains(OpBuilder &builder, Value number, MeshAttr mesh,
                          int64_t grains) {
  auto mean = AllReduceOp::create(builder, number.getLoc(), number.getType(),
                                  number, Reduction::Tree, mesh.getWorldGroup(),
                                  FlatSymbolRefAttr(), Purpose::Metric);
  if (grains != 1)
    mean.setPostAttr(builder.getF64FloatAttr(double(grains)));
  return mean;
}
