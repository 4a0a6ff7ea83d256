//===- DropReference.cpp - Forget what was captured ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/Passes.h"
#include "passes/analysis/Marks.h"
#include "passes/analysis/Programs.h"

using namespace mlir;
using namespace fsdp;

namespace fsdp {
#define GEN_PASS_DEF_DROPREFERENCE
#include "passes/Passes.h.inc"
} // namespace fsdp

namespace {

struct DropReference final : fsdp::impl::DropReferenceBase<DropReference> {
  void runOnOperation() override {
    for (auto func :
         llvm::make_early_inc_range(getOperation().getOps<func::FuncOp>()))
      if (isReference(func))
        func.erase();
      else
        func.walk(removeMarks);
  }
};

} // namespace
