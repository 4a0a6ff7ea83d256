//===- LowerShardDims.cpp - Transfers move rows ---------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/aten/Aten.h"
#include "passes/Passes.h"
#include "passes/analysis/Programs.h"
#include "passes/analysis/TensorOps.h"

#include "mlir/Dialect/Utils/IndexingUtils.h"

using namespace mlir;
using namespace fsdp;

namespace fsdp {
#define GEN_PASS_DEF_LOWERSHARDDIMS
#include "passes/Passes.h.inc"
} // namespace fsdp

namespace {

RankedTensorType makeContiguous(ArrayRef<int64_t> shape, Type element) {
  return aten::getTensorType(shape, aten::getContiguousStrides(shape), element);
}

/// Dim `dim` in front of the others.
SmallVector<int64_t> bringToFront(int64_t dim, int64_t rank) {
  SmallVector<int64_t> order{dim};
  for (int64_t i = 0; i < rank; ++i)
    if (i != dim)
      order.push_back(i);
  return order;
}

/// One transfer with at least one member along another dim, or of other parts
/// than one of each rank.
class Lowering {
public:
  explicit Lowering(StartOpInterface start)
      : start(start), wait(cast<WaitOp>(*start.getFuture().user_begin())),
        builder(start) {
    if (auto parts = start->getAttrOfType<PartsAttr>("parts")) {
      blocks = parts.getBlocks();
      balanced = parts.getBalanced();
    }
  }

  bool isNeeded(ArrayRef<int64_t> dims) const {
    return blocks != 1 || balanced ||
           llvm::any_of(dims, [](int64_t dim) { return dim != 0; });
  }

  void run(ArrayRef<int64_t> dims) {
    SmallVector<Type> promised(start.getPromised());
    SmallVector<int64_t> lowered(dims.size(), 0);
    for (auto [i, dim] : llvm::enumerate(dims))
      if (dim != 0 || blocks != 1 || balanced)
        promised[i] = lower(i, dim);
    start.setDimsAttr(builder.getDenseI64ArrayAttr(lowered));
    start->removeAttr("parts");
    start.getFuture().setType(FutureType::get(builder.getContext(), promised));
  }

private:
  /// Returns the type that arrives.
  Type lower(unsigned i, int64_t dim) {
    OpResult result = wait->getResult(i);
    RankedTensorType type = getTensor(result);
    bool gathers = isStart(start, Collective::AllGather);
    TensorOps before(start.getOperation());
    Value input = start->getOperand(i);
    if (blocks != 1)
      input =
          before.view(before.copy(input),
                      splitBlocks(getTensor(input).getShape(), dim, blocks));
    // The dim that is cut, in front.
    int64_t cut = blocks == 1 ? dim : dim + 1;
    SmallVector<int64_t> order = bringToFront(cut, getTensor(input).getRank());
    if (cut != 0)
      input = buildPermute(before.get(), input.getLoc(), input, order);
    if (balanced && !gathers)
      input = pairPieces(before, input);
    start->setOperand(i, input);

    SmallVector<int64_t> shape = splitBlocks(type.getShape(), dim, blocks);
    Type arrives =
        makeContiguous(applyPermutation(shape, order), type.getElementType());
    result.setType(arrives);
    Operation *first = wait->getNextNode();
    TensorOps after(first);
    Value value = result;
    if (balanced && gathers)
      value = sortPieces(after, value);
    if (cut != 0)
      value =
          buildContiguousCopy(after.get(), wait.getLoc(),
                              buildPermute(after.get(), result.getLoc(), value,
                                           invertPermutationVector(order)));
    value = after.view(value, type.getShape());
    result.replaceUsesWithIf(value, [&](OpOperand &use) {
      return use.getOwner() == first ||
             first->isBeforeInBlock(use.getOwner()) ||
             use.getOwner()->getBlock() != first->getBlock();
    });
    return arrives;
  }

  /// Rows in front: of `2 n` pieces those that one of `n` ranks gets behind
  /// each other.
  Value pairPieces(TensorOps &ops, Value rows) {
    int64_t ranks = start.getGroup().getSize();
    Value pieces = splitRows(ops, ops.copy(rows), {2 * ranks});
    Value early = ops.slice(pieces, 0, 0, ranks);
    Value late = ops.flip(ops.slice(pieces, 0, ranks, 2 * ranks), 0);
    return ops.view(ops.stack({early, late}, 1), getTensor(rows).getShape());
  }

  /// The other way round.
  Value sortPieces(TensorOps &ops, Value rows) {
    Value pieces = splitRows(ops, rows, {start.getGroup().getSize(), 2});
    Value early = ops.select(pieces, 1, 0);
    Value late = ops.flip(ops.select(pieces, 1, 1), 0);
    return ops.view(ops.cat({early, late}, 0), getTensor(rows).getShape());
  }

  /// Rows as so many of what is in each.
  static Value splitRows(TensorOps &ops, Value rows,
                         ArrayRef<int64_t> numbers) {
    SmallVector<int64_t> shape(getTensor(rows).getShape());
    for (int64_t number : numbers)
      shape.front() /= number;
    shape.insert(shape.begin(), numbers.begin(), numbers.end());
    return ops.view(rows, shape);
  }

  StartOpInterface start;
  WaitOp wait;
  OpBuilder builder;
  int64_t blocks = 1;
  bool balanced = false;
};

struct LowerShardDims : fsdp::impl::LowerShardDimsBase<LowerShardDims> {
  void runOnOperation() override {
    for (func::FuncOp program : getPrograms(getOperation()))
      for (Operation &op :
           llvm::make_early_inc_range(program.getBody().front())) {
        auto start = dyn_cast<StartOpInterface>(op);
        if (!start || !start.getDimsAttr())
          continue;
        SmallVector<int64_t> dims(start.getDimsAttr().asArrayRef());
        if (Lowering lowering(start); lowering.isNeeded(dims))
          lowering.run(dims);
      }
  }
};

} // namespace
