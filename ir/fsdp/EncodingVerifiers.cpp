//===- EncodingVerifiers.cpp - Constraints of narrow types ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each check names the constraint of the op's description that it enforces.
//
//===----------------------------------------------------------------------===//

#include "ir/fsdp/Fsdp.h"

#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace fsdp;

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

// EN-2.
static LogicalResult verifyNarrow(Operation *op, Type element) {
  if (isFloat8(element))
    return success();
  return op->emitOpError("expects f8E4M3FN or f8E5M2, found ") << element;
}

// EN-3.
static LogicalResult verifyEncodedNumbers(Operation *op, Value numbers) {
  Type element = getElementTypeOrSelf(numbers.getType());
  if (element.isF32())
    return success();
  return op->emitOpError("expects numbers of f32, found ") << element;
}

bool fsdp::isFloat8(Type element) {
  return isa<Float8E4M3FNType, Float8E5M2Type>(element);
}

// EN-1.
LogicalResult AmaxOp::verify() {
  SmallVector<int64_t> shape;
  if (std::optional<int64_t> dim = getDim()) {
    shape.assign(typeOf(getInput()).getShape());
    if (*dim < 0 || *dim >= int64_t(shape.size()))
      return emitOpError("expects a dim of its operand, found ") << *dim;
    shape[*dim] = 1;
  }
  if (typeOf(getResult()).getShape() != ArrayRef<int64_t>(shape))
    return emitOpError("expects a result of the shape [")
           << shape << "], found " << getResult().getType();
  return verifyEncodedNumbers(*this, getResult());
}

LogicalResult ScaleOp::verify() {
  if (failed(verifyNarrow(*this, getElement())))
    return failure();
  return verifyEncodedNumbers(*this, getAmax());
}

// EN-4.
LogicalResult EncodeOp::verify() {
  ArrayRef<int64_t> shape = typeOf(getInput()).getShape();
  ArrayRef<int64_t> scale = typeOf(getScale()).getShape();
  if (typeOf(getCode()).getShape() != shape)
    return emitOpError("expects a result of its operand's shape, found ")
           << getCode().getType() << " of " << getInput().getType();
  bool isOfRows = scale.size() == shape.size() &&
                  llvm::all_of(llvm::zip_equal(scale, shape), [](auto sizes) {
                    auto [one, other] = sizes;
                    return one == 1 || one == other;
                  });
  if (!scale.empty() && !isOfRows)
    return emitOpError("expects a scale of one number, or of one for each row "
                       "or column, found ")
           << getScale().getType();
  if (failed(verifyNarrow(*this, getElementTypeOrSelf(getCode().getType()))))
    return failure();
  return verifyEncodedNumbers(*this, getScale());
}

LogicalResult DecodeOp::verify() {
  if (typeOf(getScale()).getRank() != 0)
    return emitOpError("expects one number for a scale, found ")
           << getScale().getType();
  if (failed(verifyEncodedNumbers(*this, getSums())))
    return failure();
  return verifyEncodedNumbers(*this, getScale());
}
