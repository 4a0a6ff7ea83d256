//===- Casts.cpp - The same elements, in another type or place ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/aten/Aten.h"
#include "passes/kernels/Rules.h"

#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace fsdp;
using plan::DType;

static LogicalResult emitCast(KernelCall &call) {
  Term from = call.getStored("self");
  if (!call.canConvert(from, call.getResultType()))
    return failure();
  call.give(call.convert(from, call.getResultType()));
  return success();
}

static LogicalResult emitSame(KernelCall &call) {
  call.give(call.getStored("self"));
  return success();
}

/// One number throughout.
template <int value>
static LogicalResult emitNumber(KernelCall &call) {
  call.give(call.constant(value, call.getResultType()));
  return success();
}

static LogicalResult emitFull(KernelCall &call) {
  if (!call.getStatic("fill_value"))
    return failure();
  call.give(call.getConstant("fill_value", call.getResultType()));
  return success();
}

/// A view whose elements are the operand's, in the same order: dims of size 1
/// may come, go and move.
static FailureOr<KernelFrame> frameView(Operation *op) {
  if (op->getNumOperands() != 1 || op->getNumResults() != 1)
    return failure();
  ArrayRef<int64_t> from = shapeOf(op->getOperand(0)),
                    to = shapeOf(op->getResult(0));
  // `view` also looks at the same bytes as at another type.
  if (countElements(from) != countElements(to) ||
      getElementTypeOrSelf(op->getOperand(0)) !=
          getElementTypeOrSelf(op->getResult(0)))
    return failure();
  KernelFrame frame;
  frame.shape = KernelShape(from);
  frame.operands.push_back(frame.shape);
  frame.isRowSum.push_back(false);
  return frame;
}

/// Which dim of the operand each dim of the result is.
static std::optional<SmallVector<int64_t>> getPermutation(Operation *op) {
  auto rank = static_cast<int64_t>(shapeOf(op->getOperand(0)).size());
  SmallVector<int64_t> dims;
  for (int64_t i = 0; i < rank; ++i)
    dims.push_back(i);
  StringRef name = op->getName().getStringRef();
  if (name == "aten.permute") {
    dims = getIntegers(op, "dims");
    for (int64_t &dim : dims)
      dim = fromFront(dim, rank);
  } else if (name == "aten.t") {
    std::reverse(dims.begin(), dims.end());
  } else if (name == "aten.transpose.int" && rank > 0) {
    std::swap(dims[fromFront(*getInteger(op, "dim0"), rank)],
              dims[fromFront(*getInteger(op, "dim1"), rank)]);
  } else if (name == "aten.transpose.int") {
    return dims;
  } else {
    return std::nullopt;
  }
  return dims;
}

static FailureOr<KernelFrame> frameTranspose(Operation *op) {
  std::optional<SmallVector<int64_t>> dims = getPermutation(op);
  if (!dims)
    return failure();
  ArrayRef<int64_t> shape = shapeOf(op->getOperand(0));
  int64_t last = -1;
  for (int64_t dim : *dims) {
    if (shape[dim] == 1)
      continue;
    if (dim < last)
      return failure();
    last = dim;
  }
  return frameView(op);
}

ArrayRef<KernelRule> fsdp::getCastRules() {
  static constexpr KernelRule rules[] = {
      {"_to_copy", framePointwise, emitCast},
      {"clone", framePointwise, emitSame},
      {"ones", framePointwise, emitNumber<1>},
      {"ones_like", framePointwise, emitNumber<1>},
      {"zeros", framePointwise, emitNumber<0>},
      {"zeros_like", framePointwise, emitNumber<0>},
      {"new_ones", framePointwise, emitNumber<1>},
      {"new_zeros", framePointwise, emitNumber<0>},
      {"full", framePointwise, emitFull},
      {"full_like", framePointwise, emitFull},
      {"new_full", framePointwise, emitFull},
      {"view", frameView, emitSame, true},
      {"_unsafe_view", frameView, emitSame, true},
      {"reshape", frameView, emitSame, true},
      {"unsqueeze", frameView, emitSame, true},
      {"squeeze", frameView, emitSame, true},
      {"alias", frameView, emitSame, true},
      {"detach", frameView, emitSame, true},
      {"lift_fresh", frameView, emitSame, true},
      {"t", frameTranspose, emitSame, true},
      {"transpose", frameTranspose, emitSame, true},
      {"permute", frameTranspose, emitSame, true},
      {"expand", framePointwise, emitSame, true},
  };
  return rules;
}
