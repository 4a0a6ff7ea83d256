//===- SetSeed.cpp - Where random sequences begin -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/Passes.h"

#include "ir/fsdp/Fsdp.h"

using namespace mlir;
using namespace fsdp;

namespace fsdp {
#define GEN_PASS_DEF_SETSEED
#include "passes/Passes.h.inc"
} // namespace fsdp

namespace {

struct SetSeed final : fsdp::impl::SetSeedBase<SetSeed> {
  void runOnOperation() override {
    int64_t seed = getSeed(getOperation());
    for (auto state : getOperation().getOps<StateOp>())
      if (state.getRole() == Role::Random)
        state.setValueAttr(DenseElementsAttr::get(state.getGlobalType(),
                                                  ArrayRef<int64_t>{seed, 0}));
  }
};

} // namespace
