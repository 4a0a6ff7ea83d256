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
                              ShardingAttr sharding) {
  if (last)
    builder.setInsertionPointAfter(last);
  else
    builder.setInsertionPointToStart(module.getBody());
  last = StateOp::create(
      builder, loc, builder.getStringAttr(name),
      RoleAttr::get(builder.getContext(), role), TypeAttr::get(type), sharding,
      of ? FlatSymbolRefAttr::get(of.getSymNameAttr()) : FlatSymbolRefAttr(),
      ArrayAttr(), StringAttr(), RecordAttr(), Attribute(), IntegerAttr(),
      UnitAttr());
  return last;
}
