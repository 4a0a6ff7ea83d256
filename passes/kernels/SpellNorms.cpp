//===- SpellNorms.cpp - Norms of lists, as sums of squares ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/kernels/SpellNorms.h"

#include "ir/aten/Aten.h"
#include "ir/aten/Matchers.h"
#include "passes/analysis/TensorOps.h"

using namespace mlir;
using namespace fsdp;

/// Elements that are summed as one row: 64 partial sums of some hundred each,
/// and rows enough for all threads.
static constexpr int64_t kMostColumns = 8192, kLeastColumns = 64;

/// The greatest divisor of `count` that is at most `most`.
static int64_t findDivisor(int64_t count, int64_t most) {
  int64_t divisor = std::min(count, most);
  while (count % divisor != 0)
    --divisor;
  return divisor;
}

/// Columns that `type` is summed by, which end where a row of a dim does: as
/// those of who else reads it may; none if it has no such rows.
static std::optional<int64_t> chooseColumns(RankedTensorType type) {
  if (type.getNumElements() == 0)
    return std::nullopt;
  int64_t columns = 1;
  for (int64_t size : llvm::reverse(type.getShape())) {
    int64_t part = findDivisor(size, kMostColumns / columns);
    columns *= part;
    if (part != size)
      break;
  }
  bool isOneRow = columns == type.getNumElements();
  return columns >= kLeastColumns || isOneRow ? std::optional(columns)
                                              : std::nullopt;
}

static bool canSpell(Value value, Type result) {
  auto type = cast<RankedTensorType>(value.getType());
  Type element = type.getElementType();
  return (element.isF32() || element.isBF16() || element.isF16()) &&
         getElementTypeOrSelf(result).isF32() && aten::isContiguous(type) &&
         chooseColumns(type).has_value();
}

/// The sum over the last of two dims, which goes.
static Value sumColumns(TensorOps &ops, Value value, int64_t rows) {
  return ops.make(
      "aten.sum.dim_IntList", {value}, {ops.integers("dim", {1})},
      RankedTensorType::get({rows}, getElementTypeOrSelf(value.getType())));
}

static Value spell(TensorOps &ops, Value value) {
  auto own = cast<RankedTensorType>(value.getType());
  int64_t columns = *chooseColumns(own);
  int64_t rows = own.getNumElements() / columns;
  Value wide =
      ops.view(ops.cast(value, ops.get().getF32Type()), {rows, columns});
  auto type = cast<RankedTensorType>(wide.getType());
  Value squares = ops.make("aten.mul.Tensor", {wide, wide}, {}, type);
  Value sums = ops.view(sumColumns(ops, squares, rows), {1, rows});
  Value sum = ops.view(sumColumns(ops, sums, 1), {});
  return ops.make("aten.sqrt", {sum}, {},
                  cast<RankedTensorType>(sum.getType()));
}

void fsdp::spellNorms(func::FuncOp program) {
  SmallVector<Operation *> norms;
  for (Operation &op : program.getBody().front())
    if (op.getName().getStringRef() == "aten._foreach_norm.Scalar" &&
        aten::getStaticNumber(&op, "ord").value_or(2) == 2 &&
        llvm::all_of(llvm::zip_equal(op.getOperands(), op.getResultTypes()),
                     [](auto each) {
                       return canSpell(std::get<0>(each), std::get<1>(each));
                     }))
      norms.push_back(&op);
  for (Operation *op : norms) {
    TensorOps ops(op);
    for (auto [value, norm] :
         llvm::zip_equal(op->getOperands(), op->getResults()))
      norm.replaceAllUsesWith(spell(ops, value));
    op->erase();
  }
}
