//===- NarrowWires.cpp - In what type gradients travel --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/Passes.h"
#include "passes/analysis/Programs.h"
#include "passes/analysis/TensorOps.h"

using namespace mlir;
using namespace fsdp;

namespace fsdp {
#define GEN_PASS_DEF_NARROWWIRES
#include "passes/Passes.h.inc"
} // namespace fsdp

namespace {

struct NarrowWires final : fsdp::impl::NarrowWiresBase<NarrowWires> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (!getSetting<StepAttr>(module).getReduceWire())
      return;
    if (getDevice(module) != "cpu") {
      module.emitError("expected gradients to travel in the type that they are "
                       "summed in on ")
          << getDevice(module)
          << ", where the collective sums while it moves; leave "
             "fsdp_config.reduce_wire_dtype out, or set mixed_precision's "
             "reduce_dtype";
      return signalPassFailure();
    }
    for (func::FuncOp func : getPrograms(module))
      for (auto scatter : func.getOps<ReduceScatterOp>())
        if (scatter.getOf() && scatter.getGroup().getSize() > 1 &&
            getTensor(scatter.getFull()).getElementType().isF32())
          narrow(scatter);
  }

private:
  void narrow(ReduceScatterOp scatter) {
    TensorOps ops(scatter);
    // What backward computed in this type lies in it.
    Value full = scatter.getFull();
    Type wire = BFloat16Type::get(&getContext());
    scatter.getFullMutable().assign(ops.cast(ops.copy(full), wire));
  }
};

} // namespace
