//===- SnapshotReference.cpp - Keep what was captured --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/Passes.h"
#include "passes/analysis/Entries.h"
#include "passes/analysis/Programs.h"

using namespace mlir;
using namespace fsdp;

namespace fsdp {
#define GEN_PASS_DEF_SNAPSHOTREFERENCE
#include "passes/Passes.h.inc"
} // namespace fsdp

namespace {

struct SnapshotReference final
    : fsdp::impl::SnapshotReferenceBase<SnapshotReference> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    SymbolTable symbols(module);
    for (func::FuncOp func : getPrograms(module)) {
      if (!func->hasAttr(kCapturedAttr))
        continue;
      func::FuncOp reference = func.clone();
      reference->setAttr(ProgramAttr::name, getProgram(func).asReference());
      reference.setSymName(("reference/" + func.getSymName()).str());
      if (Operation *other = symbols.lookup(reference.getSymName())) {
        InFlightDiagnostic diagnostic =
            func.emitError("has a reference already; run fsdp-drop-reference "
                           "before another snapshot");
        diagnostic.attachNote(other->getLoc()) << "the reference";
        reference.erase();
        return signalPassFailure();
      }
      symbols.insert(reference);
    }
  }
};

} // namespace
