//===- StateAppender.cpp - New states of a module -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/analysis/StateAppender.h"

using namespace mlir;
using namespace fsdp;

StateAppender::StateAppender(ModuleOp module)
    : module(module), builder(module.getContext()) {
  for (StateOp state : module.getOps<StateOp>())
    last = state;
}

StateOp StateAppender::append(Location loc, const Twine &name, Role role,
                              RankedTensorType type, StateOp of,
                              PlacementAttrInterface placement) {
  if (last)
    builder.setInsertionPointAfter(last);
  else
    builder.setInsertionPointToStart(module.getBody());
  last = StateOp::create(builder, loc, name.str(), role, type);
  last.setPlacementAttr(placement);
  if (!of)
    return last;
  last.setOfAttr(FlatSymbolRefAttr::get(of.getSymNameAttr()));
  // Of a part it is a part, too: checkpoints hold both as whole tensors.
  if (of.getSplit() && of.getGlobalType().getShape() == type.getShape())
    last.setSplitAttr(*of.getSplit());
  return last;
}
