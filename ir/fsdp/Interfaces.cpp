//===- Interfaces.cpp - What passes ask of ops ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/fsdp/Fsdp.h"

using namespace mlir;
using namespace fsdp;

#include "ir/fsdp/Interfaces.cpp.inc"

static FlatSymbolRefAttr getNameAt(std::optional<ArrayAttr> of,
                                   unsigned index) {
  return of && index < of->size() ? dyn_cast<FlatSymbolRefAttr>((*of)[index])
                                  : FlatSymbolRefAttr();
}

namespace {
/// What the dialect knows of a collective.
struct CollectiveTraits {
  Collective kind;
  llvm::StringLiteral verb;
  bool isCombining, movesRows, cutsOperands;
};
constexpr CollectiveTraits kCollectives[] = {
    {Collective::AllGather, "gather", false, true, false},
    {Collective::ReduceScatter, "reduce", true, true, true},
    {Collective::AllReduce, "all_reduce", true, false, false},
    {Collective::Rotate, "rotate", false, false, false},
    {Collective::AllToAll, "exchange", false, true, true},
};
static_assert([] {
  for (size_t i = 0; i < std::size(kCollectives); ++i)
    if (size_t(kCollectives[i].kind) != i)
      return false;
  return std::size(kCollectives) == getMaxEnumValForCollective() + 1;
}());
} // namespace

StringRef fsdp::getVerb(Collective kind) {
  return kCollectives[size_t(kind)].verb;
}

bool fsdp::isCombining(Collective kind) {
  return kCollectives[size_t(kind)].isCombining;
}

bool fsdp::movesRows(Collective kind) {
  return kCollectives[size_t(kind)].movesRows;
}

StartOp fsdp::asCutting(Operation *op) {
  auto start = dyn_cast_or_null<StartOp>(op);
  return start && kCollectives[size_t(start.getKind())].cutsOperands
             ? start
             : StartOp();
}

StartOp fsdp::asStart(Operation *op, Collective kind) {
  auto start = dyn_cast_or_null<StartOp>(op);
  return start && start.getKind() == kind ? start : StartOp();
}

FlatSymbolRefAttr StartOp::getGradientOf(unsigned index) {
  return getNameAt(getOf(), index);
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
