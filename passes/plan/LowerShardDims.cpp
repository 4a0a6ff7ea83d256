//===- LowerShardDims.cpp - Transfers move rows ---------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/aten/Aten.h"
#include "passes/Passes.h"
#include "passes/analysis/Programs.h"
#include "passes/analysis/TensorBuilders.h"

#include "mlir/Dialect/Utils/IndexingUtils.h"

using namespace mlir;
using namespace fsdp;

namespace fsdp {
#define GEN_PASS_DEF_LOWERSHARDDIMS
#include "passes/Passes.h.inc"
} // namespace fsdp

namespace {

RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

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

/// One transfer with at least one member along another dim.
class Lowering {
public:
  explicit Lowering(StartOpInterface start)
      : start(start), wait(cast<WaitOp>(*start.getFuture().user_begin())),
        builder(start) {}

  void run(ArrayRef<int64_t> dims) {
    SmallVector<Type> promised(start.getPromised());
    SmallVector<int64_t> lowered(dims.size(), 0);
    for (auto [i, dim] : llvm::enumerate(dims))
      if (dim != 0)
        promised[i] = lower(i, dim);
    start.setDimsAttr(builder.getDenseI64ArrayAttr(lowered));
    start.getFuture().setType(FutureType::get(builder.getContext(), promised));
  }

private:
  /// Returns the type that arrives.
  Type lower(unsigned i, int64_t dim) {
    Value input = start->getOperand(i);
    SmallVector<int64_t> order = bringToFront(dim, typeOf(input).getRank());
    builder.setInsertionPoint(start);
    start->setOperand(i, buildPermute(builder, input.getLoc(), input, order));

    OpResult result = wait->getResult(i);
    RankedTensorType type = typeOf(result);
    Type arrives = makeContiguous(applyPermutation(type.getShape(), order),
                                  type.getElementType());
    result.setType(arrives);
    builder.setInsertionPointAfter(wait);
    Value view = buildPermute(builder, result.getLoc(), result,
                              invertPermutationVector(order));
    Value copy = buildContiguousCopy(builder, wait.getLoc(), view);
    result.replaceAllUsesExcept(copy, view.getDefiningOp());
    return arrives;
  }

  StartOpInterface start;
  WaitOp wait;
  OpBuilder builder;
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
        if (llvm::any_of(dims, [](int64_t dim) { return dim != 0; }))
          Lowering(start).run(dims);
      }
  }
};

} // namespace
