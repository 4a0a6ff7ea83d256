//===- Promotion.cpp - The type that an operator computes in --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/kernels/Promotion.h"

#include "ir/aten/Aten.h"
#include "ir/fsdp/Fsdp.h"
#include "passes/kernels/Call.h"

using namespace mlir;
using namespace fsdp;
using plan::DType;

namespace {
using Maybe = std::optional<DType>;
}

static bool isFloating(DType type) {
  return type == DType::f16 || type == DType::bf16 || type == DType::f32 ||
         type == DType::f64;
}

/// Of two integers, or two numbers.
static int widthOf(DType type) {
  switch (type) {
  case DType::bool_:
    return 0;
  case DType::u8:
  case DType::i8:
    return 1;
  case DType::i16:
  case DType::f16:
  case DType::bf16:
    return 2;
  case DType::i32:
  case DType::f32:
    return 4;
  default:
    return 8;
  }
}

static DType promote(DType a, DType b) {
  if (a == b)
    return a;
  if (isFloating(a) != isFloating(b))
    return isFloating(a) ? a : b;
  if (widthOf(a) != widthOf(b))
    return widthOf(a) > widthOf(b) ? a : b;
  return isFloating(a) ? DType::f32 : DType::i16; // half and bf16, i8 and u8
}

/// Of two ranks of operands, of which the first goes before.
static Maybe combine(Maybe higher, Maybe lower) {
  if (!higher || !lower)
    return higher ? higher : lower;
  if (isFloating(*higher) || (*higher != DType::bool_ && !isFloating(*lower)))
    return higher;
  return promote(*higher, *lower);
}

static void add(Maybe &to, DType type) { to = to ? promote(*to, type) : type; }

DType fsdp::promoteOperands(Operation *op) {
  Maybe tensors, scalars, numbers;
  for (Value operand : op->getOperands()) {
    auto type = cast<RankedTensorType>(operand.getType());
    DType element = toKernelDType(type.getElementType()).value_or(DType::f64);
    auto constant = operand.getDefiningOp<ConstantOp>();
    if (constant && constant.getWrapped())
      add(numbers, isFloating(element) ? DType::f32 : element);
    else
      add(type.getRank() == 0 ? scalars : tensors, element);
  }
  const aten::Schema *schema = aten::lookupSchema(op);
  if (schema && schema->find("other") && !schema->find("other")->isTensor()) {
    Attribute value = aten::getStaticArgument(op, "other");
    add(numbers, isa_and_nonnull<BoolAttr>(value)      ? DType::bool_
                 : isa_and_nonnull<IntegerAttr>(value) ? DType::i64
                                                       : DType::f32);
  }
  return combine(tensors, combine(scalars, numbers)).value_or(DType::f32);
}
