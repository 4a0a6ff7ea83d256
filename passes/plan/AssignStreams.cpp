//===- AssignStreams.cpp - Order transfers after computation --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/Passes.h"
#include "passes/analysis/Liveness.h"
#include "passes/analysis/Programs.h"

#include <array>

using namespace mlir;
using namespace fsdp;

namespace fsdp {
#define GEN_PASS_DEF_ASSIGNSTREAMS
#include "passes/Passes.h.inc"
} // namespace fsdp

namespace {

struct AssignStreams : fsdp::impl::AssignStreamsBase<AssignStreams> {
  void runOnOperation() override {
    for (func::FuncOp program : getPrograms(getOperation()))
      assign(program);
  }

  void assign(func::FuncOp program) {
    // Per stream: has compute done anything that the stream did not wait for?
    // At the program's start there is what the caller did: loading, inputs.
    std::array<bool, getMaxEnumValForStream() + 1> behind;
    behind.fill(true);
    for (Operation &op : program.getBody().front()) {
      if (isStart(&op)) {
        auto stream = op.getAttrOfType<StreamAttr>("stream");
        bool &isBehind = behind[static_cast<size_t>(stream.getValue())];
        if (!isBehind)
          continue;
        OpBuilder builder(&op);
        auto event = RecordOp::create(
            builder, op.getLoc(), EventType::get(&getContext()),
            StreamAttr::get(&getContext(), Stream::Compute));
        AwaitOp::create(builder, op.getLoc(), event.getEvent(), stream);
        isBehind = false;
      } else if (usesCompute(op)) {
        behind.fill(true);
      }
    }
  }

  /// Whether `op` puts work on the compute stream. A wait does: whatever reuses
  /// the transfer's memory must come after it.
  static bool usesCompute(Operation &op) {
    if (isa<FreeOp, ReplayOp, RecordOp, AwaitOp, ConstantOp, func::ReturnOp>(
            op))
      return false;
    bool onlyViews = op.getNumResults() != 0 &&
                     llvm::all_of(op.getResults(), [](OpResult result) {
                       return aten::getViewSource(result) != nullptr;
                     });
    return !onlyViews;
  }
};

} // namespace
