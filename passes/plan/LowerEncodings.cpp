//===- LowerEncodings.cpp - Narrow types by operators of LibTorch ---------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/Passes.h"
#include "passes/analysis/Programs.h"
#include "passes/analysis/TensorOps.h"

#include "llvm/ADT/DenseMap.h"

#include <limits>

using namespace mlir;
using namespace fsdp;

namespace fsdp {
#define GEN_PASS_DEF_LOWERENCODINGS
#include "passes/Passes.h.inc"
} // namespace fsdp

namespace {

struct LowerEncodings final : fsdp::impl::LowerEncodingsBase<LowerEncodings> {
  void runOnOperation() override {
    for (func::FuncOp program : getPrograms(getOperation())) {
      limits.clear();
      for (Operation &op :
           llvm::make_early_inc_range(program.getBody().front()))
        if (Value made = lower(op)) {
          op.getResult(0).replaceAllUsesWith(made);
          op.erase();
        }
    }
  }

private:
  /// What stands for the op's result; null if it stays.
  Value lower(Operation &op) {
    TensorOps ops(&op);
    if (auto amax = dyn_cast<AmaxOp>(op))
      return makeGreatest(ops, amax.getInput(), amax.getDim());
    if (auto scale = dyn_cast<ScaleOp>(op))
      return makeScale(ops, scale);
    if (auto encode = dyn_cast<EncodeOp>(op)) {
      RankedTensorType type = getTensor(encode.getInput());
      Value scale = encode.getScale();
      // A factor with dims makes a product in f32 of what is narrower.
      if (!type.getElementType().isF32() && getTensor(scale).getRank() == 0)
        scale = ops.view(scale, {1});
      Value scaled = ops.make(
          "aten.mul.Tensor", {encode.getInput(), scale}, {},
          RankedTensorType::get(type.getShape(), ops.get().getF32Type()));
      return ops.cast(scaled, encode.getCode().getType().getElementType());
    }
    if (auto decode = dyn_cast<DecodeOp>(op))
      return ops.make("aten.mul.Tensor", {decode.getSums(), invert(decode)}, {},
                      getTensor(decode.getSums()));
    return {};
  }

  static Value makeGreatest(TensorOps &ops, Value tensor,
                            std::optional<int64_t> dim) {
    RankedTensorType type = getTensor(tensor);
    Builder &builder = ops.get();
    double infinity = std::numeric_limits<double>::infinity();
    SmallVector<NamedAttribute> order{
        builder.getNamedAttr("ord", builder.getF64FloatAttr(infinity))};
    SmallVector<int64_t> shape;
    if (dim) {
      shape.assign(type.getShape().begin(), type.getShape().end());
      shape[*dim] = 1;
      order.push_back(ops.integers("dim", {*dim}));
      order.push_back(
          builder.getNamedAttr("keepdim", builder.getBoolAttr(true)));
    }
    if (!type.getElementType().isF32())
      order.push_back(ops.type(builder.getF32Type()));
    return ops.make("aten.linalg_vector_norm", {tensor}, order,
                    RankedTensorType::get(shape, builder.getF32Type()));
  }

  Value makeScale(TensorOps &ops, ScaleOp scale) {
    RankedTensorType scales = scale.getResult().getType();
    Value divisor =
        ops.make("aten.clamp_min", {scale.getAmax()},
                 ops.get().getNamedAttr("min", scale.getLeastAttr()), scales);
    Value limit = getLimit(ops, cast<FloatType>(scale.getElement()));
    Value result = ops.make("aten.div.Tensor", {limit, divisor}, {}, scales);
    if (scale.getPowerOfTwo())
      for (StringRef step : {"aten.log2", "aten.floor", "aten.exp2"})
        result = ops.make(step, {result}, {}, scales);
    return result;
  }

  /// The type's greatest number, once in a program.
  Value getLimit(TensorOps &ops, FloatType element) {
    Value &limit = limits[element];
    if (!limit) {
      auto number = RankedTensorType::get({}, ops.get().getF32Type());
      float largest = llvm::APFloat::getLargest(element.getFloatSemantics())
                          .convertToFloat();
      limit =
          ConstantOp::create(ops.get(), ops.getLoc(), number,
                             DenseElementsAttr::get(number, largest), nullptr);
    }
    return limit;
  }

  /// Where the scale is computed, before the bucket travels; of one that was
  /// given, where it is first divided by.
  Value invert(DecodeOp decode) {
    Value scale = decode.getScale();
    Value &inverse = inverses[scale];
    if (!inverse) {
      Operation *made = scale.getDefiningOp();
      TensorOps ops(made ? made : decode.getOperation());
      if (made)
        ops.get().setInsertionPointAfter(made);
      inverse = ops.make("aten.reciprocal", {scale}, {}, getTensor(scale));
    }
    return inverse;
  }

  llvm::DenseMap<Value, Value> inverses;
  llvm::DenseMap<Type, Value> limits;
};

} // namespace
