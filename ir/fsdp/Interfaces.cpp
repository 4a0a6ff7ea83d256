//===- Interfaces.cpp - What passes ask of ops ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/fsdp/Fsdp.h"

using namespace mlir;
using namespace fsdp;

#include "ir/fsdp/Interfaces.cpp.inc"

static FlatSymbolRefAttr getName(std::optional<ArrayAttr> of, unsigned index) {
  return of && index < of->size() ? dyn_cast<FlatSymbolRefAttr>((*of)[index])
                                  : FlatSymbolRefAttr();
}

FlatSymbolRefAttr ReduceScatterStartOp::getGradientOf(unsigned index) {
  return getName(getOf(), index);
}

FlatSymbolRefAttr AllReduceStartOp::getGradientOf(unsigned index) {
  return getName(getOf(), index);
}

StartOpInterface WaitOp::getStart() {
  return getFuture().getDefiningOp<StartOpInterface>();
}

Value WaitOp::getForwarded(OpResult result) {
  StartOpInterface start = getStart();
  unsigned number = result.getResultNumber();
  return start && number < start.getInputs().size() ? start.getInputs()[number]
                                                    : Value();
}
