//===- Entries.cpp - Programs of one entry --------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/analysis/Entries.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace fsdp;

StringRef fsdp::getEntry(func::FuncOp program) {
  return program.getSymName().split('[').first;
}

/// By `StepPart`.
static constexpr llvm::StringLiteral kPartEntries[] = {
    "train/step", "train/first", "train/middle", "train/last"};

StepPart fsdp::getStepPart(func::FuncOp program) {
  const auto *found = llvm::find(kPartEntries, getEntry(program));
  return found == std::end(kPartEntries)
             ? StepPart::Whole
             : static_cast<StepPart>(found - std::begin(kPartEntries));
}

std::string fsdp::getPartName(func::FuncOp program, StepPart part) {
  StringRef binding = program.getSymName().substr(getEntry(program).size());
  return (kPartEntries[static_cast<size_t>(part)] + binding).str();
}

std::string fsdp::getCapturedName(func::FuncOp program) {
  if (getStepPart(program) == StepPart::Whole)
    return program.getSymName().str();
  return getPartName(program, StepPart::Whole);
}

std::string fsdp::getReferenceName(func::FuncOp program) {
  std::string captured = getCapturedName(program);
  // npos + 1 is 0: without a slash the whole name.
  size_t step = isValidation(program)
                    ? 0
                    : StringRef(captured).split('[').first.rfind('/') + 1;
  return (kReferencePrefix + StringRef(captured).substr(step)).str();
}

std::string fsdp::getValidationName(func::FuncOp program) {
  StringRef name = program.getSymName(), entry = getEntry(program);
  return (kValidationPrefix + name.substr(entry.rfind('/') + 1)).str();
}

SmallVector<StringAttr> fsdp::getDifferentiated(func::FuncOp program) {
  SmallVector<StringAttr> states;
  for (unsigned i = 0; i < program.getNumResults(); ++i)
    if (auto of =
            program.getResultAttrOfType<FlatSymbolRefAttr>(i, kGradientAttr))
      states.push_back(of.getAttr());
  return states;
}

LogicalResult fsdp::verifySameGradients(ArrayRef<func::FuncOp> programs) {
  llvm::MapVector<StringRef, func::FuncOp> firsts;
  for (func::FuncOp program : programs) {
    func::FuncOp first =
        firsts.insert({getEntry(program), program}).first->second;
    if (first == program)
      continue;
    for (auto [has, lacks] :
         {std::pair{first, program}, std::pair{program, first}}) {
      SmallVector<StringAttr> others = getDifferentiated(lacks);
      for (StringAttr state : getDifferentiated(has))
        if (!llvm::is_contained(others, state)) {
          InFlightDiagnostic diagnostic =
              lacks.emitError("has no gradient of '")
              << state.getValue() << "', which '" << has.getSymName()
              << "' has; programs of one artifact train the same parameters: "
                 "compile these shapes to artifacts of their own";
          diagnostic.attachNote(has.getLoc()) << "the other program";
          return diagnostic;
        }
    }
  }
  return success();
}
