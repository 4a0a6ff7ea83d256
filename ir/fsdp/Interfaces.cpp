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

bool fsdp::isCombining(Collective kind) {
  switch (kind) {
  case Collective::ReduceScatter:
  case Collective::AllReduce:
    return true;
  case Collective::AllGather:
  case Collective::Rotate:
    return false;
  }
  llvm_unreachable("an unknown collective");
}

bool fsdp::movesRows(Collective kind) {
  switch (kind) {
  case Collective::AllGather:
  case Collective::ReduceScatter:
    return true;
  case Collective::AllReduce:
  case Collective::Rotate:
    return false;
  }
  llvm_unreachable("an unknown collective");
}

StartOp fsdp::asStart(Operation *op, Collective kind) {
  auto start = dyn_cast_or_null<StartOp>(op);
  return start && start.getKind() == kind ? start : StartOp();
}

FlatSymbolRefAttr StartOp::getGradientOf(unsigned index) {
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
