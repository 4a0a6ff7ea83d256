//===- Columns.cpp - Parts of rows, and rows of parts ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A dim that is cut or joined, and those inside of it, are the columns of a
// row.
//
//===----------------------------------------------------------------------===//

#include "ir/aten/Aten.h"
#include "passes/kernels/Rules.h"

using namespace mlir;
using namespace fsdp;
using plan::DType;

static int64_t getDim(Operation *op, size_t rank) {
  return fromFront(getInteger(op, "dim").value_or(0), rank);
}

/// A frame of operands and results as they are, whose widest tensor has all
/// dims from `dim` on in a row.
static KernelFrame frameFrom(Operation *op, ArrayRef<int64_t> widest,
                             int64_t dim) {
  KernelFrame frame;
  frame.shape = KernelShape(widest);
  frame.columns = countElements(widest.drop_front(dim));
  for (Value operand : op->getOperands())
    frame.operands.push_back(KernelShape(shapeOf(operand)));
  frame.isRowSum.assign(op->getNumResults(), false);
  return frame;
}

//===----------------------------------------------------------------------===//
// Joined
//===----------------------------------------------------------------------===//

static FailureOr<KernelFrame> frameCat(Operation *op) {
  ArrayRef<int64_t> shape = shapeOf(op->getResult(0));
  int64_t dim = getDim(op, shape.size());
  if (op->getNumOperands() == 0)
    return failure();
  // All of a rank: LibTorch passes over empty vectors, which are no operands
  // here.
  for (Value operand : op->getOperands())
    if (shapeOf(operand).take_front(dim) != shape.take_front(dim))
      return failure();
  return frameFrom(op, shape, dim);
}

static LogicalResult emitCat(KernelCall &call) {
  int64_t rows = countElements(shapeOf(call.op->getResult(0))) / call.columns;
  DType type = call.getResultType();
  SmallVector<Term> parts;
  for (auto [term, operand] :
       llvm::zip_equal(call.getStoredList("tensors"), call.op->getOperands())) {
    if (!call.canConvert(term, type))
      return failure();
    parts.push_back(call.builder.spread(
        call.convert(term, type), countElements(shapeOf(operand)) / rows));
  }
  call.give(parts.size() == 1 ? parts.front()
                              : call.builder.append(KernelOpKind::cat, parts));
  return success();
}

//===----------------------------------------------------------------------===//
// Cut
//===----------------------------------------------------------------------===//

namespace {
/// Columns of the whole.
struct Part {
  int64_t first, columns;
};
} // namespace

/// `count` of a dim from `start` on.
static Part getPart(ArrayRef<int64_t> whole, int64_t dim, int64_t start,
                    int64_t count) {
  int64_t inside = countElements(whole.drop_front(dim + 1));
  return {start * inside, count * inside};
}

/// Where LibTorch lets a slice begin: from the end if it is negative, within
/// the dim.
static int64_t getStart(Operation *op, int64_t size) {
  int64_t start = getInteger(op, "start").value_or(0);
  return std::clamp<int64_t>(start < 0 ? start + size : start, 0, size);
}

/// The part that a slice of `whole` has, of `cut`'s shape.
static Part getSlice(Operation *op, ArrayRef<int64_t> whole,
                     ArrayRef<int64_t> cut) {
  int64_t dim = getDim(op, whole.size());
  return getPart(whole, dim, getStart(op, whole[dim]), cut[dim]);
}

/// The part that `index` of `whole` has; fails if it is not static.
static FailureOr<Part> getSelected(Operation *op, ArrayRef<int64_t> whole) {
  int64_t dim = getDim(op, whole.size());
  std::optional<int64_t> index = getInteger(op, "index");
  if (!index)
    return failure();
  return getPart(whole, dim, fromFront(*index, whole[dim]), 1);
}

static FailureOr<KernelFrame> frameCut(Operation *op) {
  ArrayRef<int64_t> shape = shapeOf(op->getOperand(0));
  if (shape.empty() || getInteger(op, "step").value_or(1) != 1)
    return failure();
  return frameFrom(op, shape, getDim(op, shape.size()));
}

static void giveParts(KernelCall &call, ArrayRef<Part> parts) {
  Term whole = call.getStored("self");
  for (Part part : parts) {
    bool isAll = part.columns == call.columns;
    // One column is all of them.
    bool isOne = call.builder.get(whole).columns == 1;
    call.give(isAll || isOne ? whole
                             : call.builder.append(KernelOpKind::slice, {whole},
                                                   {part.first, part.columns}));
  }
}

static LogicalResult emitSlice(KernelCall &call) {
  giveParts(call, getSlice(call.op, shapeOf(call.op->getOperand(0)),
                           shapeOf(call.op->getResult(0))));
  return success();
}

static LogicalResult emitSelect(KernelCall &call) {
  FailureOr<Part> part = getSelected(call.op, shapeOf(call.op->getOperand(0)));
  if (failed(part))
    return failure();
  giveParts(call, *part);
  return success();
}

static LogicalResult emitSplit(KernelCall &call) {
  ArrayRef<int64_t> shape = shapeOf(call.op->getOperand(0));
  int64_t dim = getDim(call.op, shape.size()), start = 0;
  SmallVector<Part> parts;
  for (Value result : call.op->getResults()) {
    bool isKept = shapeOf(result).size() == shape.size();
    int64_t count = isKept ? shapeOf(result)[dim] : 1;
    parts.push_back(getPart(shape, dim, start, count));
    start += count;
  }
  giveParts(call, parts);
  return success();
}

//===----------------------------------------------------------------------===//
// Gradients: a part among zeros
//===----------------------------------------------------------------------===//

static FailureOr<KernelFrame> framePadded(Operation *op) {
  ArrayRef<int64_t> shape = shapeOf(op->getResult(0));
  if (shape.empty() || getInteger(op, "step").value_or(1) != 1)
    return failure();
  return frameFrom(op, shape, getDim(op, shape.size()));
}

static LogicalResult givePadded(KernelCall &call, Part part) {
  if (!isFloat(call.getResultType()))
    return failure();
  SmallVector<Term> parts;
  auto pad = [&](int64_t columns) {
    if (columns > 0)
      parts.push_back(call.builder.spread(call.number(0), columns));
  };
  pad(part.first);
  parts.push_back(
      call.builder.spread(call.getStored("grad_output"), part.columns));
  pad(call.columns - part.first - part.columns);
  call.give(parts.size() == 1 ? parts.front()
                              : call.builder.append(KernelOpKind::cat, parts));
  return success();
}

static LogicalResult emitSliceBackward(KernelCall &call) {
  return givePadded(call, getSlice(call.op, shapeOf(call.op->getResult(0)),
                                   shapeOf(call.op->getOperand(0))));
}

static LogicalResult emitSelectBackward(KernelCall &call) {
  FailureOr<Part> part = getSelected(call.op, shapeOf(call.op->getResult(0)));
  return failed(part) ? failure() : givePadded(call, *part);
}

ArrayRef<KernelRule> fsdp::getColumnRules() {
  static constexpr KernelRule rules[] = {
      {"cat", frameCat, emitCat},
      {"stack", frameCat, emitCat},
      {"slice", frameCut, emitSlice, true},
      {"select", frameCut, emitSelect, true},
      {"split", frameCut, emitSplit, true},
      {"split_with_sizes", frameCut, emitSplit, true},
      {"unbind", frameCut, emitSplit, true},
      {"slice_backward", framePadded, emitSliceBackward},
      {"select_backward", framePadded, emitSelectBackward},
  };
  return rules;
}
