//===- Float8Products.cpp - Matrices in eight bits, multiplied ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Arithmetic of torchao's float8 training (torchao/float8, Float8LinearConfig):
// dynamic scales by tensor, or by row as its recipe "rowwise"; and of its MX
// formats (torchao/prototype/mx_formats): scales of blocks, powers of two that
// are rounded up (ScaleCalculationMode.RCEIL).
//
//===----------------------------------------------------------------------===//

#include "passes/shard/Float8Products.h"

#include "mlir/IR/BuiltinTypes.h"

using namespace mlir;
using namespace fsdp;

/// A zero has a scale as well (torchao's EPS).
static constexpr double kLeastMaximum = 1e-12;

/// `shape` with dim `dim` as blocks, and what is in each.
static SmallVector<int64_t> getSplit(ArrayRef<int64_t> shape, int64_t dim) {
  SmallVector<int64_t> split(shape);
  split[dim] = kScaleBlock;
  split.insert(split.begin() + dim, shape[dim] / kScaleBlock);
  return split;
}

/// What `value` is a reshape of, both in row-major order.
static Value getOrigin(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    StringRef made = op->getName().getStringRef();
    if ((made != "aten.view" && made != "aten._unsafe_view") ||
        !aten::isContiguous(getTensor(op->getOperand(0))))
      break;
    value = op->getOperand(0);
  }
  return value;
}

/// In f32, strides kept.
static Value toFloat(TensorOps &ops, Value value) {
  RankedTensorType type = getTensor(value);
  Type f32 = ops.get().getF32Type();
  return ops.make(
      "aten._to_copy", {value}, ops.type(f32),
      aten::getTensorType(type.getShape(), aten::getStrides(type), f32));
}

Float8Value Float8Products::quantize(TensorOps &ops, Matrix value,
                                     int64_t summed, bool isGradient,
                                     StringRef name) {
  MLIRContext *context = value.base.getContext();
  // Blocks and rows are small enough for the type of more digits.
  Type element = isGradient && isWhole() ? Type(Float8E5M2Type::get(context))
                                         : Type(Float8E4M3FNType::get(context));
  int64_t dim = value.isTransposed ? 1 - summed : summed;
  Cast &made = casts[{value.base, element, isWhole() ? -1 : dim}];
  if (!made.code)
    made = cast(ops, value.base, element, dim, name);
  if (hasBlocks() && !readsInOrder) {
    Value wide = widen(ops, made, dim);
    return {{}, {}, value.isTransposed ? ops.transpose(wide) : wide};
  }
  // The base is in row-major order.
  bool isInOrder = value.isTransposed == (summed == 0);
  Value data = made.code;
  if (readsInOrder && !isInOrder)
    data =
        value.isTransposed ? turn(ops, data) : ops.transpose(turn(ops, data));
  else if (value.isTransposed)
    data = ops.transpose(data);
  if (hasBlocks())
    return {data, arrange(ops, made.inverse, dim), {}};
  bool isTurned = !isWhole() && value.isTransposed;
  return {data, isTurned ? ops.transpose(made.inverse) : made.inverse, {}};
}

/// A copy of the transpose, in row-major order, once.
Value Float8Products::turn(TensorOps &ops, Value data) {
  Value &made = turned[data];
  if (!made)
    made = ops.copy(ops.transpose(data));
  return made;
}

Float8Products::Cast Float8Products::cast(TensorOps &ops, Value source,
                                          Type element, int64_t dim,
                                          StringRef name) {
  source = ops.copy(source);
  ArrayRef<int64_t> shape = getTensor(source).getShape();
  // Where ranks have parts of a sequence, which rows of all are no part of,
  // what travels for these is cast already.
  if (isWhole())
    source = getOrigin(source);
  else if (hasBlocks())
    source = ops.view(source, getSplit(shape, dim++));
  RankedTensorType type = getTensor(source);
  madeCasts.add(name, type.getElementType(), element);
  SmallVector<int64_t> scales;
  if (!isWhole()) {
    scales.assign(type.getShape().begin(), type.getShape().end());
    scales[dim] = 1;
  }
  OpBuilder &at = ops.get();
  auto numbers = RankedTensorType::get(scales, at.getF32Type());
  Value amax =
      AmaxOp::create(at, ops.getLoc(), numbers, source,
                     isWhole() ? IntegerAttr() : at.getI64IntegerAttr(dim));
  // By row as torchao's round_scales_to_power_of_2.
  Value scale =
      ScaleOp::create(at, ops.getLoc(), numbers, amax, TypeAttr::get(element),
                      at.getF64FloatAttr(kLeastMaximum),
                      isWhole() ? nullptr : at.getUnitAttr());
  Value inverse = ops.make("aten.reciprocal", {scale}, {}, numbers);
  Value code = EncodeOp::create(at, ops.getLoc(),
                                RankedTensorType::get(type.getShape(), element),
                                source, scale);
  return {ops.view(code, shape), inverse};
}

/// The numbers that blocks stand for.
Value Float8Products::widen(TensorOps &ops, const Cast &cast, int64_t dim) {
  ArrayRef<int64_t> shape = getTensor(cast.code).getShape();
  Value blocks = ops.view(toFloat(ops, cast.code), getSplit(shape, dim));
  return ops.view(ops.make("aten.mul.Tensor", {blocks, cast.inverse}, {},
                           getTensor(blocks)),
                  shape);
}

/// Scales of blocks as cuBLAS reads them ("1D Block Scaling Factors Layout"):
/// tiles of 128 rows by 4 blocks, row 32 i + j of a tile at 4 j + i.
Value Float8Products::arrange(TensorOps &ops, Value inverse, int64_t dim) {
  Value &made = arranged[inverse];
  if (made)
    return made;
  constexpr int64_t kRows = 128, kInner = 32, kColumns = 4;
  SmallVector<int64_t> shape(getTensor(inverse).getShape());
  shape.erase(shape.begin() + dim + 1);
  Value scales = ops.view(inverse, shape);
  if (dim == 0)
    scales = ops.copy(ops.transpose(scales));
  ArrayRef<int64_t> size = getTensor(scales).getShape();
  int64_t rows = llvm::divideCeil(size[0], kRows),
          columns = llvm::divideCeil(size[1], kColumns);
  Type f32 = ops.get().getF32Type();
  auto filled = RankedTensorType::get({rows * kRows, columns * kColumns}, f32);
  if (filled != getTensor(scales))
    scales = ops.make("aten.constant_pad_nd", {scales},
                      {ops.integers("pad", {0, columns * kColumns - size[1], 0,
                                            rows * kRows - size[0]})},
                      filled);
  scales = ops.view(scales, {rows, kRows / kInner, kInner, columns, kColumns});
  SmallVector<int64_t> order{0, 3, 2, 1, 4}, to, strides;
  for (int64_t from : order) {
    to.push_back(getTensor(scales).getDimSize(from));
    strides.push_back(aten::getStrides(getTensor(scales))[from]);
  }
  scales = ops.make("aten.permute", {scales}, ops.integers("dims", order),
                    aten::getTensorType(to, strides, f32));
  scales = ops.view(ops.copy(scales), {filled.getNumElements()});
  return made = ops.cast(scales, Float8E8M0FNUType::get(inverse.getContext()));
}

Value Float8Products::multiply(TensorOps &ops, Float8Value a, Float8Value b,
                               RankedTensorType type, bool isForward) {
  auto plain = RankedTensorType::get(type.getShape(), type.getElementType());
  auto wide = RankedTensorType::get(type.getShape(), ops.get().getF32Type());
  if (a.wide)
    return ops.cast(ops.make("aten.mm", {a.wide, b.wide}, {}, wide),
                    type.getElementType());
  if (isWhole() || readsInOrder) {
    Builder &builder = ops.get();
    SmallVector<NamedAttribute> arguments{builder.getNamedAttr(
        "out_dtype", TypeAttr::get(type.getElementType()))};
    if (readsInOrder && isForward && !hasBlocks())
      arguments.push_back(
          builder.getNamedAttr("use_fast_accum", builder.getBoolAttr(true)));
    return ops.make("aten._scaled_mm", {a.data, b.data, a.inverse, b.inverse},
                    arguments, plain);
  }
  Value product = ops.make(
      "aten.mm", {toFloat(ops, a.data), toFloat(ops, b.data)}, {}, wide);
  for (Value inverse : {a.inverse, b.inverse})
    product = ops.make("aten.mul.Tensor", {product, inverse}, {}, wide);
  return ops.cast(product, type.getElementType());
}
