//===- LowerParts.cpp - Parts in blocks, and balanced ones ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/Passes.h"
#include "passes/analysis/Programs.h"
#include "passes/analysis/TensorOps.h"

using namespace mlir;
using namespace fsdp;

namespace fsdp {
#define GEN_PASS_DEF_LOWERPARTS
#include "passes/Passes.h.inc"
} // namespace fsdp

namespace {

struct LowerParts : fsdp::impl::LowerPartsBase<LowerParts> {
  void runOnOperation() override {
    for (func::FuncOp program : getPrograms(getOperation()))
      for (auto shard : llvm::make_early_inc_range(
               program.getBody().front().getOps<ShardOp>()))
        if (shard.getParts())
          lower(shard);
  }

private:
  static void lower(ShardOp shard) {
    TensorOps ops(shard);
    PartsAttr parts = *shard.getParts();
    GroupAttr group = shard.getGroup();
    int64_t ranks = group.getSize();
    int64_t dim = shard.getDim() + (parts.getBlocks() != 1);
    Value whole = ops.view(ops.copy(shard.getFull()),
                           splitBlocks(shard.getFull().getType().getShape(),
                                       shard.getDim(), parts.getBlocks()));
    RankedTensorType type = getTensor(whole);
    int64_t rows = type.getDimSize(dim);
    Value part;
    if (parts.getBalanced()) {
      int64_t piece = rows / (2 * ranks);
      SmallVector<int64_t> early, late;
      for (int64_t rank = 0; rank < ranks; ++rank) {
        early.push_back(getPiece(rank, ranks, false) * piece);
        late.push_back(getPiece(rank, ranks, true) * piece);
      }
      part = ops.cat({ops.selectRows(whole, dim, early, piece, group),
                      ops.selectRows(whole, dim, late, piece, group)},
                     dim);
    } else {
      SmallVector<int64_t> shape(type.getShape());
      shape[dim] = rows / ranks;
      part =
          ShardOp::create(ops.get(), shard.getLoc(),
                          RankedTensorType::get(shape, type.getElementType()),
                          whole, dim, group, PartsAttr(), shard.getPurpose());
    }
    shard.replaceAllUsesWith(
        ops.view(part, shard.getShard().getType().getShape()));
    shard.erase();
  }
};

} // namespace
