//===- LossInputs.cpp - What chunks of a loss read from outside -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/memory/LossInputs.h"

using namespace mlir;
using namespace fsdp;

using Use = LossRegion::Use;

/// The stride of the rows if the first `lead` dims can be one dim.
static std::optional<int64_t> getRowStride(RankedTensorType type,
                                           unsigned lead) {
  SmallVector<int64_t> strides = aten::getStrides(type);
  std::optional<int64_t> stride, next;
  for (unsigned i = lead; i-- > 0;) {
    if (type.getDimSize(i) == 1)
      continue;
    if (next && strides[i] != *next)
      return std::nullopt;
    if (!stride)
      stride = strides[i];
    next = strides[i] * type.getDimSize(i);
  }
  return stride ? stride : int64_t(1);
}

//===----------------------------------------------------------------------===//
// In front of all chunks
//===----------------------------------------------------------------------===//

/// What reads a tensor for its shape does not need it.
void LossInputs::forgetShapes() {
  SmallVector<Operation *> readers;
  for (Operation *op = region.getLinear(); op; op = op->getNextNode())
    if (getFill(op) && llvm::any_of(op->getOperands(), [&](Value operand) {
          return region.dependsOnLogits(operand);
        }))
      readers.push_back(op);
  for (Operation *op : readers) {
    RankedTensorType type = getTensor(op->getResult(0));
    TensorOps here(op);
    op->getResult(0).replaceAllUsesWith(
        here.fill(*getFill(op), type.getShape(), type.getElementType()));
    op->erase();
  }
}

/// Moves what makes a value, which does not depend on the logits, in front of
/// the chunks.
void LossInputs::hoist(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op || op->isBeforeInBlock(region.getLinear()) || region.contains(op))
    return;
  for (Value operand : op->getOperands())
    hoist(operand);
  op->moveBefore(region.getLinear());
}

void LossInputs::prepare() {
  forgetShapes();
  for (const LossRegion::Member &member : region.getMembers())
    for (Value operand : member.op->getOperands())
      hoist(operand);
}

Value LossInputs::buildAhead(llvm::function_ref<Value()> build) {
  OpBuilder::InsertionGuard guard(ops.get());
  if (firstChunk)
    ops.get().setInsertionPoint(firstChunk);
  return build();
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

void LossInputs::beginChunk(int64_t from, int64_t to) {
  start = from;
  end = to;
  own.clear();
}

Value LossInputs::getWhole(Value value, unsigned lead, bool isAll) {
  Value &known = whole[value];
  if (!known)
    known = buildAhead([&] { return makeWhole(value, lead, isAll); });
  return known;
}

Value LossInputs::makeWhole(Value value, unsigned lead, bool isAll) {
  RankedTensorType type = getTensor(value);
  ArrayRef<int64_t> columns = type.getShape().drop_front(lead);
  SmallVector<int64_t> shape = joinSizes({region.getCount()}, columns);
  const std::optional<RowSelection> &selection = region.getSelection();
  if (isAll && selection) {
    Value grouped =
        ops.view(ops.copy(value), joinSizes(selection->shape, columns));
    Value kept =
        ops.slice(grouped, selection->dim, selection->start, selection->end);
    return ops.view(ops.copy(kept), shape);
  }
  if (lead == 1)
    return value;
  std::optional<int64_t> stride = getRowStride(type, lead);
  if (!type.getEncoding() || !stride)
    return ops.view(ops.copy(value), shape);
  SmallVector<int64_t> strides =
      joinSizes({*stride}, ArrayRef(aten::getStrides(type)).drop_front(lead));
  return ops.make("aten.view", {value}, ops.integers("size", shape),
                  aten::getTensorType(shape, strides, type.getElementType()));
}

Value LossInputs::getOwn(Value value, unsigned lead, bool isAll) {
  Value &known = own[value];
  if (known)
    return known;
  known = ops.slice(getWhole(value, lead, isAll), 0, start, end);
  if (!firstChunk)
    firstChunk = known.getDefiningOp();
  return known;
}

Value LossInputs::take(Value operand, RankedTensorType type, unsigned lead,
                       bool isAll) {
  RankedTensorType given = getTensor(operand);
  ArrayRef<int64_t> columns = given.getShape();
  columns = columns.take_back(
      std::min<size_t>(columns.size(), type.getRank() - lead));
  switch (region.getUse(operand, type, lead)) {
  case Use::Sliced:
    return getOwn(operand, lead, isAll);
  case Use::Filled:
    return ops.fill(*getFill(operand.getDefiningOp()),
                    joinSizes({getCount()}, columns), given.getElementType());
  case Use::Squeezed:
    return ops.view(ops.copy(operand), columns);
  case Use::Spread: {
    Value &spread = spreads[{operand, type}];
    if (!spread)
      spread = buildAhead([&] {
        return ops.copy(ops.expand(
            operand, joinSizes(type.getShape().take_front(lead), columns)));
      });
    return getOwn(spread, lead, isAll);
  }
  case Use::Local:
  case Use::Invariant:
  case Use::None:
    break;
  }
  return operand;
}
