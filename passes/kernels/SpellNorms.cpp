//===- SpellNorms.cpp - Norms of lists, as sums of squares ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/kernels/SpellNorms.h"

#include "ir/aten/Aten.h"
#include "ir/aten/Matchers.h"
#include "passes/analysis/TensorOps.h"

#include "llvm/ADT/SetVector.h"

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

/// By norms: the sums that they are roots of.
using RowSums = DenseMap<Value, Value>;

/// The sum over the last of two dims, which goes.
static Value sumColumns(TensorOps &ops, Value value, int64_t rows) {
  return ops.make(
      "aten.sum.dim_IntList", {value}, {ops.integers("dim", {1})},
      RankedTensorType::get({rows}, getElementTypeOrSelf(value.getType())));
}

static Value sumAll(TensorOps &ops, Value sums) {
  int64_t count = getTensor(sums).getNumElements();
  return ops.view(sumColumns(ops, ops.view(sums, {1, count}), 1), {});
}

namespace {

/// A norm, and the sums of squares of rows that it is made of.
struct Spelled {
  Value norm, rows;
};

} // namespace

static Spelled spell(TensorOps &ops, Value value) {
  auto own = cast<RankedTensorType>(value.getType());
  int64_t columns = *chooseColumns(own);
  int64_t rows = own.getNumElements() / columns;
  Value wide =
      ops.view(ops.cast(value, ops.get().getF32Type()), {rows, columns});
  auto type = cast<RankedTensorType>(wide.getType());
  Value squares = ops.make("aten.mul.Tensor", {wide, wide}, {}, type);
  Value sums = sumColumns(ops, squares, rows);
  Value sum = sumAll(ops, sums);
  return {
      ops.make("aten.sqrt", {sum}, {}, cast<RankedTensorType>(sum.getType())),
      sums};
}

/// The only reader of `value`, however often it does.
static Operation *findOnlyReader(Value value) {
  if (value.use_empty())
    return nullptr;
  Operation *reader = *value.user_begin();
  return llvm::all_equal(value.getUsers()) ? reader : nullptr;
}

/// The sum of the squares of what `stack` puts together, if that is all that
/// becomes of it; else null.
static Operation *findSumOfSquares(Operation *stack) {
  Operation *square = findOnlyReader(stack->getResult(0));
  if (!square || getName(square) != "aten.mul.Tensor" ||
      !llvm::all_equal(square->getOperands()))
    return nullptr;
  Operation *sum = findOnlyReader(square->getResult(0));
  bool isPlain = sum && getName(sum) == "aten.sum" &&
                 getTensor(sum->getResult(0)).getElementType().isF32();
  return isPlain ? sum : nullptr;
}

/// All elements side by side, and zeros behind them, as rows of as many columns
/// as are summed at once.
static Value sumTogether(TensorOps &ops, SmallVector<Value> all) {
  int64_t count = 0;
  for (Value each : all)
    count += getTensor(each).getNumElements();
  int64_t rows = llvm::divideCeil(count, kMostColumns);
  int64_t columns = llvm::divideCeil(count, rows);
  Type f32 = ops.get().getF32Type();
  if (int64_t missing = rows * columns - count)
    all.push_back(ops.fill(ops.get().getF64FloatAttr(0), {missing}, f32));
  Value together = ops.view(ops.cat(all, 0), {rows, columns});
  return sumAll(ops, sumColumns(ops, together, rows));
}

/// `op`, which nobody reads, and what nobody reads then.
static void eraseUnread(Operation *op) {
  llvm::SetVector<Operation *> makers;
  for (Value operand : op->getOperands())
    if (Operation *maker = operand.getDefiningOp())
      makers.insert(maker);
  op->erase();
  for (Operation *maker : makers)
    if (maker->use_empty())
      eraseUnread(maker);
}

/// The norm of norms is the root of the sum of what these are roots of: no
/// kernels for each.
static void joinNorms(func::FuncOp program, const RowSums &rowSums) {
  SmallVector<std::pair<Operation *, Operation *>> found;
  for (Operation &op : program.getBody().front())
    if (getName(&op) == "aten.stack" &&
        llvm::all_of(op.getOperands(), [&](Value norm) {
          return rowSums.contains(norm) && norm.hasOneUse();
        }))
      if (Operation *sum = findSumOfSquares(&op))
        found.push_back({&op, sum});
  for (auto [stack, sum] : found) {
    SmallVector<Value> all = llvm::map_to_vector(
        stack->getOperands(), [&](Value norm) { return rowSums.lookup(norm); });
    TensorOps ops(sum);
    sum->getResult(0).replaceAllUsesWith(sumTogether(ops, std::move(all)));
    eraseUnread(sum);
  }
}

void fsdp::spellNorms(func::FuncOp program, bool joins) {
  SmallVector<Operation *> norms;
  for (Operation &op : program.getBody().front())
    if (op.getName().getStringRef() == "aten._foreach_norm.Scalar" &&
        aten::getStaticNumber(&op, "ord").value_or(2) == 2 &&
        llvm::all_of(llvm::zip_equal(op.getOperands(), op.getResultTypes()),
                     [](auto each) {
                       return canSpell(std::get<0>(each), std::get<1>(each));
                     }))
      norms.push_back(&op);
  RowSums rowSums;
  for (Operation *op : norms) {
    TensorOps ops(op);
    for (auto [value, norm] :
         llvm::zip_equal(op->getOperands(), op->getResults())) {
      Spelled spelled = spell(ops, value);
      norm.replaceAllUsesWith(spelled.norm);
      rowSums[spelled.norm] = spelled.rows;
    }
    op->erase();
  }
  if (joins)
    joinNorms(program, rowSums);
}
