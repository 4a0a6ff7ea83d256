//===- AdapterMatchers.cpp - Ops around an adapter's products -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/shard/AdapterMatchers.h"

#include "ir/aten/Aten.h"
#include "ir/aten/Matchers.h"
#include "ir/fsdp/Fsdp.h"
#include "passes/analysis/TensorBuilders.h"

#include <cmath>

using namespace mlir;
using namespace fsdp;

static bool isFloat(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && isa<FloatType>(type.getElementType());
}

bool adapters::isCopy(Operation *op) {
  return (aten::isCast(op) || aten::isClone(op)) &&
         isFloat(op->getOperand(0)) && isFloat(op->getResult(0));
}

bool adapters::isReshape(Operation *op) {
  return llvm::is_contained({"aten.view", "aten._unsafe_view", "aten.reshape",
                             "aten._reshape_alias", "aten.unsqueeze",
                             "aten.squeeze", "aten.squeeze.dim",
                             "aten.squeeze.dims"},
                            getName(op));
}

/// The number that a tensor of one element holds, if the program says it.
static std::optional<double> getConstant(Value value) {
  auto constant = value.getDefiningOp<ConstantOp>();
  auto elements =
      constant ? dyn_cast<DenseElementsAttr>(constant.getValue()) : nullptr;
  if (!elements || elements.getNumElements() != 1)
    return std::nullopt;
  return aten::getNumber(*elements.getValues<Attribute>().begin());
}

std::optional<double> adapters::getFactor(Operation *op) {
  std::optional<double> number;
  if (getName(op) == "aten.mul.Scalar" || getName(op) == "aten.div.Scalar")
    number = aten::getStaticNumber(op, "other");
  else if (getName(op) == "aten.mul.Tensor" || getName(op) == "aten.div.Tensor")
    number = getConstant(op->getOperand(1));
  if (number && getName(op).starts_with("aten.div"))
    number = 1 / *number;
  bool isFactor = number && std::isfinite(*number) &&
                  getTensor(op->getOperand(0)).getShape() ==
                      getTensor(op->getResult(0)).getShape();
  return isFactor ? number : std::nullopt;
}

Value adapters::getDropped(Operation *op) {
  std::optional<double> factor = getFactor(op);
  Operation *masked = factor ? op->getOperand(0).getDefiningOp() : nullptr;
  if (!masked || getName(masked) != "aten.mul.Tensor")
    return {};
  Value mask = masked->getOperand(1);
  while (Operation *cast = mask.getDefiningOp()) {
    if (!aten::isCast(cast))
      break;
    mask = cast->getOperand(0);
  }
  auto draw = mask.getDefiningOp<DrawOp>();
  if (!draw || draw.getDistribution() != Distribution::Bernoulli)
    return {};
  SmallVector<double> numbers = draw.getNumberValues();
  bool keepsMean =
      numbers.size() == 1 && std::abs(numbers[0] * *factor - 1) < 1e-9;
  return keepsMean ? masked->getOperand(0) : Value();
}
