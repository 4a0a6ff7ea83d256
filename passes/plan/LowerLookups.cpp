//===- LowerLookups.cpp - Embeddings of which ranks have parts of the rows ===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Megatron's vocabulary-parallel embedding (megatron/core/tensor_parallel,
// Shoeybi et al. 2019): a rank looks up the rows that it has, others are zeros.
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/analysis/Programs.h"
#include "passes/analysis/TensorOps.h"

#include "ir/aten/OpModel.h"

#include "mlir/IR/TypeUtilities.h"

#include <limits>

using namespace mlir;
using namespace fsdp;

namespace fsdp {
#define GEN_PASS_DEF_LOWERLOOKUPS
#include "passes/Passes.h.inc"
} // namespace fsdp

namespace {

class LookupLowering {
public:
  LookupLowering(Operation *op, GroupAttr group)
      : op(op), group(group), ranks(group.getSize()), ops(op),
        indices(op->getOperand(1)), index(getElementTypeOrSelf(indices)),
        i1(IntegerType::get(op->getContext(), 1)) {}

  void run() {
    Operation *made =
        getName(op) == "aten.embedding" ? lookUp() : differentiate();
    op->replaceAllUsesWith(made);
    op->erase();
  }

private:
  /// A number of each rank's: a tensor of one element.
  template <typename Number>
  Value forEachRank(Number &&number) {
    auto type = RankedTensorType::get({ranks}, index);
    SmallVector<Attribute> values;
    SmallVector<int64_t> starts;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      values.push_back(IntegerAttr::get(index, number(rank)));
      starts.push_back(rank);
    }
    Value all =
        ConstantOp::create(ops.get(), ops.getLoc(), type,
                           DenseElementsAttr::get(type, values), nullptr);
    return ops.selectRows(all, 0, starts, 1, group);
  }

  Value makeLike(StringRef name, ArrayRef<Value> operands, Type element,
                 ArrayRef<NamedAttribute> statics = {}) {
    SmallVector<aten::TensorArgument> tensors(operands.begin(), operands.end());
    return ops.make(
        name, tensors, statics,
        RankedTensorType::get(getTensor(indices).getShape(), element));
  }

  Value fill(Type element, Attribute value) {
    auto type = RankedTensorType::get({}, element);
    return ConstantOp::create(ops.get(), ops.getLoc(), type,
                              DenseElementsAttr::get(type, value), nullptr);
  }

  /// Finds which indices are of a rank's own rows, of which it has `rows`, and
  /// numbers these from its first one on. An index of no row at all is the
  /// first or the last rank's, whose kernel refuses it as that of one rank
  /// alone would.
  void find(int64_t rows) {
    unsigned bits = index.getIntOrFloatBitWidth();
    int64_t least = bits == 32 ? std::numeric_limits<int32_t>::min()
                               : std::numeric_limits<int64_t>::min();
    Value first = forEachRank([&](int64_t rank) { return rank * rows; });
    Value from = forEachRank(
        [&](int64_t rank) { return rank == 0 ? least : rank * rows; });
    Value to = forEachRank([&](int64_t rank) {
      return rank + 1 == ranks ? ~least : (rank + 1) * rows - 1;
    });
    indices = ops.copy(indices);
    isOwn = makeLike("aten.logical_and",
                     {makeLike("aten.ge.Tensor", {indices, from}, i1),
                      makeLike("aten.le.Tensor", {indices, to}, i1)},
                     i1);
    own = makeLike("aten.sub.Tensor", {indices, first}, index);
  }

  /// Indices of own rows, `other` in the places of the others.
  Value choose(int64_t other) {
    return makeLike("aten.where.self",
                    {isOwn, own, fill(index, IntegerAttr::get(index, other))},
                    index);
  }

  Operation *lookUp() {
    find(getTensor(op->getOperand(0)).getDimSize(0));
    RankedTensorType type = getTensor(op->getResult(0));
    Operation *all = ops.remake(op, {op->getOperand(0), choose(0)}, {type});
    Type element = type.getElementType();
    Value only =
        ops.make("aten.where.self",
                 {ops.view(isOwn, joinSizes(getTensor(indices).getShape(), 1)),
                  all->getResult(0), fill(element, FloatAttr::get(element, 0))},
                 {}, type);
    return only.getDefiningOp();
  }

  /// The kernel passes over what equals its `padding_idx`.
  Operation *differentiate() {
    NamedAttrList statics(aten::getProperty(op));
    constexpr int64_t kNone = -1;
    auto padding = dyn_cast_or_null<IntegerAttr>(statics.get("padding_idx"));
    find(getTensor(op->getResult(0)).getDimSize(0));
    if (padding && padding.getInt() >= 0)
      isOwn =
          makeLike("aten.logical_and",
                   {isOwn, makeLike("aten.ne.Scalar", {indices}, i1,
                                    ops.integer("other", padding.getInt()))},
                   i1);
    statics.set("padding_idx", ops.get().getI64IntegerAttr(kNone));
    return ops.remake(op, {op->getOperand(0), choose(kNone)},
                      op->getResultTypes(),
                      statics.getDictionary(op->getContext()));
  }

  Operation *op;
  GroupAttr group;
  int64_t ranks;
  TensorOps ops;
  Value indices;
  Type index, i1;
  // For each index whether it is of an own row, and of which.
  Value isOwn, own;
};

struct LowerLookups final : fsdp::impl::LowerLookupsBase<LowerLookups> {
  void runOnOperation() override {
    for (func::FuncOp program : getPrograms(getOperation()))
      for (Operation &op :
           llvm::make_early_inc_range(program.getBody().front()))
        if (auto rows = op.getAttrOfType<PlacedAttr>(kRowsAttr))
          LookupLowering(&op, rows.getGroup()).run();
  }
};

} // namespace
