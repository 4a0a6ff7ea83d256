//===- Placements.cpp - Where the elements of a state lie -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/fsdp/Fsdp.h"

using namespace mlir;
using namespace fsdp;

#include "ir/fsdp/Placements.cpp.inc"

RankedTensorType ShardingAttr::getLocalType(RankedTensorType type) const {
  return getShardType(type, getDim(), getGroup());
}

Attribute ShardingAttr::getSharding() const { return *this; }

LogicalResult
ShardingAttr::verifyType(RankedTensorType type,
                         function_ref<InFlightDiagnostic()> emitError) const {
  if (getDim() >= 0 && getDim() < type.getRank())
    return success();
  return emitError() << "expects a sharded dim below its rank "
                     << type.getRank() << ", found dim " << getDim();
}

LogicalResult SplitAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                int64_t, int64_t blocks, GroupAttr) {
  if (blocks >= 1)
    return success();
  return emitError() << "expected at least one block, found " << blocks;
}

RankedTensorType FlatAttr::getLocalType(RankedTensorType type) const {
  return getShardType(type, 0, getGroup());
}

Attribute FlatAttr::getSharding() const {
  return ShardingAttr::get(getContext(), 0, getGroup());
}

LogicalResult
FlatAttr::verifyType(RankedTensorType type,
                     function_ref<InFlightDiagnostic()> emitError) const {
  if (type.getRank() == 1 && type.getDimSize(0) % getGroup().getSize() == 0)
    return success();
  return emitError() << "expects a flat state to have one dim that its ranks "
                        "cut evenly, found "
                     << type;
}

// It has no memory of its own: programs of one rank bind the flat state.
RankedTensorType PartAttr::getLocalType(RankedTensorType type) const {
  return type;
}
