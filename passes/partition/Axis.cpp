//===- Axis.cpp - Ranks that compute a step together ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/partition/Axis.h"

#include "passes/analysis/Marks.h"
#include "passes/analysis/Mesh.h"
#include "passes/partition/PlanParallel.h"

using namespace mlir;
using namespace fsdp;

Pieces Axis::getPieces(const WholeOp &op, ArrayRef<Place> operands) const {
  Pieces pieces{getRanks(), balanced};
  pieces.isContext = isContext();
  pieces.ring = ring;
  auto add = [&](int64_t blocks) {
    if (!llvm::is_contained(pieces.blocks, blocks))
      pieces.blocks.push_back(blocks);
  };
  if (!isContext() && llvm::none_of(operands, [](Place place) {
        return place.isPart() && place.blocks != 1;
      }))
    return pieces;
  add(1);
  for (Place place : operands)
    if (place.isPart())
      add(place.blocks);
  if (!isContext())
    return pieces;
  for (ArrayRef<RankedTensorType> types :
       {ArrayRef(op.operands), ArrayRef(op.results)})
    for (RankedTensorType type : types)
      if (type)
        for (int64_t size : type.getShape())
          if (size != 0 && size % sequence == 0)
            add(size / sequence);
  return pieces;
}

PartsAttr Axis::getParts(int64_t blocks) const {
  return blocks == 1 && !balanced
             ? PartsAttr()
             : PartsAttr::get(group.getContext(), blocks, balanced);
}

PlacedAttr Axis::toAttr(Place place) const {
  PlacedKind kind = place == kWholePlace      ? PlacedKind::Whole
                    : place == kPartialPlace  ? PlacedKind::Partial
                    : place == kGreatestPlace ? PlacedKind::Greatest
                                              : PlacedKind::Shard;
  return PlacedAttr::get(
      group.getContext(), kind, std::max<int64_t>(place.dim, 0),
      place.isPart() ? getParts(place.blocks) : PartsAttr(), group);
}

Place Axis::toPlace(PlacedAttr placed) {
  if (placed.isWhole())
    return kWholePlace;
  if (placed.isPartial())
    return kPartialPlace;
  if (placed.getKind() == PlacedKind::Greatest)
    return kGreatestPlace;
  return toPlace(placed.getDim(), placed.getParts());
}

Axis fsdp::getTensorAxis(ParallelAttr told) {
  return {getTensorGroup(told), told.getSequence()};
}

/// Tokens of a row of what an embedding looks up; 0 if it is none of a batch's.
static int64_t getSequence(Operation &op) {
  if (op.getName().getStringRef() != "aten.embedding")
    return 0;
  RankedTensorType rows = getTogetherType(op.getResult(0));
  return rows.getRank() < 3 ? 0 : rows.getDimSize(rows.getRank() - 2);
}

FailureOr<Axis> fsdp::getContextAxis(func::FuncOp func, ParallelAttr told) {
  Axis axis{getContextGroup(told), /*alongSequence=*/true};
  axis.ring = told.getRing();
  Operation *first = nullptr;
  for (Operation &op : func.getBody().front()) {
    if (!first && getSequence(op) > 1) {
      first = &op;
      axis.sequence = getSequence(op);
    }
    axis.balanced |= isCausalAttention(&op);
  }
  int64_t ranks = told.getCp();
  if (!first)
    return func.emitError("expected an embedding of a batch's tokens, of whose "
                          "sequences the ")
           << ranks << " ranks of 'cp' compute parts, found none";
  int64_t pieces = ranks * (axis.balanced ? 2 : 1);
  if (axis.sequence % pieces == 0)
    return axis;
  InFlightDiagnostic diagnostic =
      first->emitOpError("has sequences of ")
      << axis.sequence << " tokens, which the " << pieces
      << " pieces of 'cp: " << ranks << "'"
      << (axis.balanced ? " (two a rank, under a causal mask)" : "")
      << " do not divide; ";
  std::string others =
      axis.balanced && axis.sequence % 2 != 0
          ? ""
          : listDivisors(axis.sequence / (axis.balanced ? 2 : 1), 64);
  diagnostic << (others.empty() ? "no number of ranks would work"
                                : others + " ranks would work");
  return failure();
}
