//===- InsertZeroPadding.cpp - Zero the rows behind gradients -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/Passes.h"
#include "passes/analysis/Programs.h"

using namespace mlir;
using namespace fsdp;

namespace fsdp {
#define GEN_PASS_DEF_INSERTZEROPADDING
#include "passes/Passes.h.inc"
} // namespace fsdp

namespace {

struct InsertZeroPadding
    : fsdp::impl::InsertZeroPaddingBase<InsertZeroPadding> {
  void runOnOperation() override {
    for (func::FuncOp program : getPrograms(getOperation()))
      for (auto start : program.getOps<StartOp>()) {
        if (!asCutting(start))
          continue;
        OpBuilder builder(start);
        for (auto [input, dim] :
             llvm::zip_equal(start.getInputs(), *start.getDims())) {
          auto type = cast<RankedTensorType>(input.getType());
          int64_t rows = type.getDimSize(dim);
          int64_t ranks = start.getGroup().getSize();
          if (getShardRows(rows, ranks) * ranks != rows)
            ZeroPaddingOp::create(builder, start.getLoc(), input, dim,
                                  start.getGroup());
        }
      }
  }
};

} // namespace
