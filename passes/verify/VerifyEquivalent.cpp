//===- VerifyEquivalent.cpp - Prove that nothing changed -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/Passes.h"
#include "passes/analysis/Entries.h"
#include "passes/analysis/Programs.h"
#include "passes/analysis/ValueNumbering.h"

#include "mlir/Parser/Parser.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace fsdp;

namespace fsdp {
#define GEN_PASS_DEF_VERIFYEQUIVALENT
#include "passes/Passes.h.inc"
} // namespace fsdp

namespace {

struct VerifyEquivalent final
    : fsdp::impl::VerifyEquivalentBase<VerifyEquivalent> {
  using Base::Base;

  void runOnOperation() override {
    if (failed(verify(getOperation())))
      signalPassFailure();
  }

private:
  LogicalResult verify(ModuleOp module) {
    OwningOpRef<ModuleOp> file;
    if (!to.empty()) {
      file = parseSourceFile<ModuleOp>(to, &getContext());
      if (!file)
        return failure();
    }
    SmallVector<func::FuncOp> references;
    for (auto func : (file ? *file : module).getOps<func::FuncOp>())
      if (!func.isExternal() &&
          (file ? func->hasAttr(kCapturedAttr) : isReference(func)))
        references.push_back(func);
    if (references.empty())
      return module.emitError("expects a captured program to compare with: a "
                              "reference in the module, or a file given with "
                              "'to'");
    SmallVector<func::FuncOp> gathering;
    if (llvm::any_of(module.getOps<StateOp>(), [](StateOp state) {
          return state.getRole() == Role::Gathered;
        }))
      gathering =
          llvm::filter_to_vector(getPrograms(module), [](func::FuncOp func) {
            return getStepPart(func) == StepPart::First;
          });
    for (func::FuncOp func : getPrograms(module)) {
      // It was made behind capture.
      if (file && isValidation(func))
        continue;
      func::FuncOp reference = choose(references, getCaptured(func));
      if (!reference)
        return func.emitError("expects a captured program of its own to "
                              "compare with, among the ")
               << references.size() << " that there are";
      ValueNumbering numbering;
      auto expected = numbering.run(reference);
      // What the others find gathered. All first programs leave the same.
      for (func::FuncOp other : gathering)
        if (other != func)
          numbering.run(other);
      if (failed(compare(numbering, expected, func)))
        return failure();
    }
    return success();
  }

  /// The one of `candidates` that is what `captured` was; if there is only one,
  /// that one.
  static func::FuncOp choose(ArrayRef<func::FuncOp> candidates,
                             ProgramAttr captured) {
    if (candidates.size() == 1)
      return candidates.front();
    const auto *found = llvm::find_if(candidates, [&](func::FuncOp candidate) {
      ProgramAttr own = getProgram(candidate);
      return own.getKind() == captured.getKind() &&
             own.getShapes() == captured.getShapes();
    });
    return found == candidates.end() ? func::FuncOp() : *found;
  }

  using Observation = ValueNumbering::Observation;

  static LogicalResult compare(ValueNumbering &numbering,
                               ArrayRef<Observation> expected,
                               func::FuncOp func) {
    llvm::StringMap<const Observation *> byName;
    for (const Observation &each : expected)
      byName[each.what] = &each;
    llvm::StringMap<bool> seen;
    ValueNumbering::Number known = numbering.getCount();
    for (const Observation &found : numbering.run(func)) {
      if (!found.isMetric)
        seen[found.what] = true;
      const Observation *captured = byName.lookup(found.what);
      if (!captured)
        return emitError(found.loc)
               << "has a " << found.what << " that was not captured";
      bool isSame =
          found.isBeforeCast
              ? numbering.isCastOf(captured->number, found.number)
              : found.number == captured->number ||
                    numbering.isMetricOf(found.number, captured->number);
      if (!isSame)
        return refuse(numbering, known, *captured, found);
    }
    bool hasGrains =
        getSetting<StepAttr>(func->getParentOfType<ModuleOp>()).getGrains() !=
        0;
    for (const Observation &each : expected)
      if (!seen.contains(each.what) &&
          !(each.isRandom && hasGrains && !endsStep(func))) {
        InFlightDiagnostic diagnostic = func.emitError("lacks the ")
                                        << each.what;
        diagnostic.attachNote(each.loc) << "captured here";
        return diagnostic;
      }
    return success();
  }

  static LogicalResult refuse(const ValueNumbering &numbering,
                              ValueNumbering::Number known,
                              const Observation &captured,
                              const Observation &found) {
    InFlightDiagnostic diagnostic = emitError(found.loc)
                                    << "the " << found.what
                                    << " differs from what was captured";
    if (Operation *op = numbering.findFirstUnknown(found.number, known))
      diagnostic.attachNote(op->getLoc())
          << "the first op that differs is " << op->getName();
    if (Operation *op = numbering.getOp(captured.number))
      diagnostic.attachNote(op->getLoc())
          << "captured as the result of " << op->getName();
    return diagnostic;
  }
};

} // namespace
