//===- Metrics.cpp - Numbers that a step reports --------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/shard/Metrics.h"

#include "ir/aten/Aten.h"

using namespace mlir;

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
