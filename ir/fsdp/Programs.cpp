//===- Programs.cpp - What a function is a program for --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/fsdp/Fsdp.h"

#include "mlir/Interfaces/FunctionInterfaces.h"

using namespace mlir;
using namespace fsdp;

LogicalResult ProgramAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                  ProgramKind kind, StepPart part, StringAttr,
                                  bool) {
  if (part == StepPart::Whole || kind == ProgramKind::Train)
    return success();
  return emitError() << "expected a whole step of '"
                     << stringifyProgramKind(kind) << "', found its part '"
                     << stringifyStepPart(part) << "'";
}

std::string ProgramAttr::getSymbol() const {
  StringRef step =
      getPart() == StepPart::Whole ? "step" : stringifyStepPart(getPart());
  std::string name = (stringifyProgramKind(getKind()) + "/" + step).str();
  return getShapes() ? name + "[" + getShapes().str() + "]" : name;
}

ProgramAttr ProgramAttr::withPart(StepPart part) const {
  return get(getContext(), getKind(), part, getShapes(), getReference());
}

ProgramAttr ProgramAttr::withKind(ProgramKind kind) const {
  return get(getContext(), kind, getPart(), getShapes(), getReference());
}

ProgramAttr ProgramAttr::asReference() const {
  return get(getContext(), getKind(), getPart(), getShapes(), true);
}

static ProgramAttr getDefault(MLIRContext *context) {
  return ProgramAttr::get(context, ProgramKind::Train, StepPart::Whole,
                          StringAttr(), false);
}

ProgramAttr fsdp::getProgram(Operation *function) {
  auto program = function->getAttrOfType<ProgramAttr>(ProgramAttr::name);
  return program ? program : getDefault(function->getContext());
}

void fsdp::setProgram(Operation *function, ProgramAttr program) {
  if (program == getDefault(function->getContext()))
    function->removeAttr(ProgramAttr::name);
  else
    function->setAttr(ProgramAttr::name, program);
  SymbolTable::setSymbolName(function, program.getSymbol());
}

LogicalResult fsdp::verifyProgram(Operation *op, NamedAttribute attr) {
  if (isa<FunctionOpInterface>(op) && isa<ProgramAttr>(attr.getValue()))
    return success();
  return op->emitError("'fsdp.program' expects a function and a #fsdp.program");
}
