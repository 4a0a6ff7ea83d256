//===- Entries.cpp - Programs of one step ---------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/analysis/Entries.h"

#include <map>

using namespace mlir;
using namespace fsdp;

SmallVector<StringAttr> fsdp::getDifferentiated(func::FuncOp program) {
  SmallVector<StringAttr> states;
  for (unsigned i = 0; i < program.getNumResults(); ++i)
    if (auto of =
            program.getResultAttrOfType<FlatSymbolRefAttr>(i, kGradientAttr))
      states.push_back(of.getAttr());
  return states;
}

LogicalResult fsdp::verifySameGradients(ArrayRef<func::FuncOp> programs) {
  std::map<std::pair<ProgramKind, StepPart>, func::FuncOp> firsts;
  for (func::FuncOp program : programs) {
    ProgramAttr own = getProgram(program);
    func::FuncOp first =
        firsts.insert({{own.getKind(), own.getPart()}, program}).first->second;
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
