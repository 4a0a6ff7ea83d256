//===- MoveCastsToShards.cpp - Cast before the gather --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/Passes.h"
#include "passes/analysis/Programs.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace fsdp;

namespace fsdp {
#define GEN_PASS_DEF_MOVECASTSTOSHARDS
#include "passes/Passes.h.inc"
} // namespace fsdp

namespace {

/// The only reader of a gather if that is a plain cast to a type that is not
/// wider, else null.
Operation *getMovableCast(AllGatherOp gather) {
  if (!gather.getFull().hasOneUse())
    return nullptr;
  Operation *cast = *gather.getFull().user_begin();
  if (cast->getName().getStringRef() != "aten._to_copy")
    return nullptr;
  // A cast to other strides would need the whole tensor.
  auto arguments =
      dyn_cast_or_null<DictionaryAttr>(cast->getPropertiesAsAttribute());
  if (!arguments || arguments.size() != 1 || !arguments.get("dtype"))
    return nullptr;
  auto from = mlir::cast<RankedTensorType>(gather.getFull().getType());
  auto to = mlir::cast<RankedTensorType>(cast->getResult(0).getType());
  if (to.getEncoding() || !to.getElementType().isIntOrFloat() ||
      !from.getElementType().isIntOrFloat() ||
      to.getElementTypeBitWidth() > from.getElementTypeBitWidth())
    return nullptr;
  return cast;
}

struct MoveCastsToShards final
    : fsdp::impl::MoveCastsToShardsBase<MoveCastsToShards> {
  void runOnOperation() override {
    for (func::FuncOp func : getPrograms(getOperation())) {
      SmallVector<AllGatherOp> gathers(func.getOps<AllGatherOp>());
      for (AllGatherOp gather : gathers)
        if (Operation *cast = getMovableCast(gather))
          swap(gather, cast);
    }
  }

private:
  static void swap(AllGatherOp gather, Operation *castOp) {
    auto full = cast<RankedTensorType>(castOp->getResult(0).getType());
    OpBuilder builder(castOp);
    IRMapping mapping;
    mapping.map(gather.getFull(), gather.getShard());
    Operation *shardCast = builder.clone(*castOp, mapping);
    shardCast->getResult(0).setType(
        getShardType(full, gather.getDim(), gather.getGroup()));
    auto moved = AllGatherOp::create(builder, gather.getLoc(), full,
                                     shardCast->getResult(0), gather.getDim(),
                                     gather.getGroup());
    castOp->getResult(0).replaceAllUsesWith(moved.getFull());
    castOp->erase();
    gather.erase();
  }
};

} // namespace
