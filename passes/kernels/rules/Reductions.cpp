//===- Reductions.cpp - Sums, means and maxima ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/aten/Aten.h"
#include "passes/kernels/Rules.h"

using namespace mlir;
using namespace fsdp;
using plan::DType;

namespace {
/// Which dims are reduced, those of size 1 left out: the last ones, the first
/// ones (over rows), both (all), or none.
enum class Reduced { Columns, Rows, All, None };
struct ReducedDims {
  Reduced which;
  int64_t columns; ///< of a row, as they are before
};
} // namespace

static SmallVector<bool> listReduced(Operation *op, size_t rank) {
  SmallVector<int64_t> dims = getIntegers(op, "dim");
  SmallVector<bool> isReduced(rank, dims.empty());
  for (int64_t dim : dims)
    if (rank > 0)
      isReduced[fromFront(dim, rank)] = true;
  return isReduced;
}

static std::optional<ReducedDims> findReduction(Operation *op) {
  SmallVector<int64_t> shape;
  SmallVector<bool> isReduced;
  ArrayRef<int64_t> all = shapeOf(op->getOperand(0));
  for (auto [size, reduced] : llvm::zip_equal(all, listReduced(op, all.size())))
    if (size > 1) {
      shape.push_back(size);
      isReduced.push_back(reduced);
    }
  size_t count = llvm::count(isReduced, true);
  if (count == 0)
    return ReducedDims{Reduced::None, 0};
  if (count == shape.size())
    return ReducedDims{Reduced::All, shape.back()};
  if (llvm::all_of(ArrayRef(isReduced).take_back(count),
                   [](bool reduced) { return reduced; }))
    return ReducedDims{Reduced::Columns,
                       countElements(ArrayRef(shape).take_back(count))};
  if (llvm::all_of(ArrayRef(isReduced).take_front(count),
                   [](bool reduced) { return reduced; }))
    return ReducedDims{Reduced::Rows,
                       countElements(ArrayRef(shape).drop_front(count))};
  return std::nullopt;
}

static FailureOr<KernelFrame> frameReduction(Operation *op) {
  std::optional<ReducedDims> reduction = findReduction(op);
  if (!reduction)
    return failure();
  KernelFrame frame;
  frame.shape = KernelShape(shapeOf(op->getOperand(0)));
  frame.operands.push_back(frame.shape);
  frame.columns = reduction->columns;
  bool isOneRow = countElements(frame.shape) == frame.columns;
  frame.isRowSum.push_back(reduction->which == Reduced::Rows ||
                           (reduction->which == Reduced::All && !isOneRow));
  return frame;
}

static bool isOneRow(KernelCall &call) {
  return countElements(shapeOf(call.op->getOperand(0))) == call.columns;
}

/// Whether the result is in the operand's type, or sums bf16 and halves as f32.
static bool hasKnownType(KernelCall &call) {
  auto from = cast<RankedTensorType>(call.getValue("self").getType());
  DType type = *toKernelDType(from.getElementType());
  return isFloat(type) &&
         (call.getResultType() == type || call.getResultType() == DType::f32);
}

static LogicalResult emitSum(KernelCall &call) {
  if (!hasKnownType(call))
    return failure();
  Term self = call.getStored("self");
  switch (findReduction(call.op)->which) {
  case Reduced::None:
    call.give(self);
    break;
  case Reduced::Rows:
    call.giveRowSum(call.builder.spread(self, call.columns));
    break;
  case Reduced::Columns:
    call.give(sumColumns(call, self));
    break;
  case Reduced::All:
    if (isOneRow(call))
      call.give(sumColumns(call, self));
    else
      call.giveRowSum(sumColumns(call, self));
    break;
  }
  return success();
}

/// What is reduced has to be all of one row: nothing is behind a sum over rows.
static bool isWithinRows(KernelCall &call) {
  Reduced which = findReduction(call.op)->which;
  return which == Reduced::None || which == Reduced::Columns ||
         (which == Reduced::All && isOneRow(call));
}

static LogicalResult emitMean(KernelCall &call) {
  if (!hasKnownType(call) || !isWithinRows(call))
    return failure();
  Term self = call.getStored("self");
  if (findReduction(call.op)->which == Reduced::None) {
    call.give(self);
    return success();
  }
  call.give(sumColumns(call, self) / static_cast<double>(call.columns));
  return success();
}

template <bool isLeast>
static LogicalResult emitExtreme(KernelCall &call) {
  if (!hasKnownType(call) || !isWithinRows(call))
    return failure();
  Term self = call.getStored("self");
  if (findReduction(call.op)->which == Reduced::None)
    call.give(self);
  else
    call.give(isLeast ? -maxColumns(call, -self) : maxColumns(call, self));
  return success();
}

ArrayRef<KernelRule> fsdp::getReductionRules() {
  static constexpr KernelRule rules[] = {
      {"sum", frameReduction, emitSum},
      {"mean", frameReduction, emitMean},
      {"amax", frameReduction, emitExtreme<false>},
      {"amin", frameReduction, emitExtreme<true>},
  };
  return rules;
}
