//===- Folders.cpp - Identities of the fsdp dialect -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/fsdp/Fsdp.h"

using namespace mlir;
using namespace fsdp;

// Each rank holds all of x and keeps its rows; putting them together is x.
OpFoldResult AllGatherOp::fold(FoldAdaptor) {
  auto shard = getShard().getDefiningOp<ShardOp>();
  if (shard && shard.getDim() == getDim() && shard.getGroup() == getGroup() &&
      shard.getPartsAttr() == getPartsAttr() &&
      shard.getFull().getType() == getFull().getType())
    return shard.getFull();
  return {};
}
