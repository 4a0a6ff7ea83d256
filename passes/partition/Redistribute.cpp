//===- Redistribute.cpp - From one placement to another -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/partition/Redistribute.h"

#include "passes/analysis/TensorBuilders.h"
#include "passes/partition/Localize.h"

#include "mlir/Dialect/Utils/IndexingUtils.h"

using namespace mlir;
using namespace fsdp;

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

std::optional<int64_t> fsdp::getTransferBytes(RankedTensorType whole,
                                              Place from, Place to,
                                              int64_t ranks) {
  if (from == to || to == kAnyPlace || (from == kWholePlace && to.isPart()))
    return 0;
  // Nobody has greatest values of parts of what all have.
  if (to == kGreatestPlace || (from == kGreatestPlace && to != kWholePlace))
    return std::nullopt;
  if (to == kPartialPlace)
    return from == kWholePlace ? std::optional<int64_t>(0) : std::nullopt;
  int64_t bytes = whole.getNumElements() *
                  aten::getElementBytes(whole.getElementType()) * (ranks - 1) /
                  ranks;
  return !from.isPart() && to == kWholePlace ? 2 * bytes : bytes;
}

Value fsdp::copyInOrder(OpBuilder &builder, Location loc, Value value) {
  return aten::isContiguous(typeOf(value))
             ? value
             : buildContiguousCopy(builder, loc, value);
}

/// The dims of `part` from the slowest to the fastest in memory: in the order
/// of the tensor that it is a part of, if it lies so. (A part may have a single
/// row where the tensor has several, and then says nothing of that dim's
/// place.)
static SmallVector<int64_t> chooseOrder(RankedTensorType part,
                                        RankedTensorType whole) {
  SmallVector<int64_t> order = getMemoryOrder(whole);
  return aten::isContiguous(getPermutedType(part, order))
             ? order
             : getMemoryOrder(part);
}

// Transfers move what is contiguous: the dims are brought into their order in
// memory, and back behind it, so that views of the tensor stay possible.
PlacedValue fsdp::redistribute(OpBuilder &builder, Location loc,
                               PlacedValue value, Place to,
                               RankedTensorType whole, const Axis &axis) {
  Place from = value.place;
  if (from == to || to == kAnyPlace)
    return value;
  int64_t ranks = axis.getRanks();
  if (from.isPart() && to != kWholePlace)
    return redistribute(
        builder, loc,
        redistribute(builder, loc, value, kWholePlace, whole, axis), to, whole,
        axis);

  SmallVector<int64_t> order = chooseOrder(typeOf(value.value), whole);
  SmallVector<int64_t> back = invertPermutationVector(order);
  bool isInOrder = llvm::is_sorted(order);
  Value input = value.value;
  if (!isInOrder)
    input = buildPermute(builder, loc, input, order);
  input = copyInOrder(builder, loc, input);
  auto dimOf = [&](Place place) {
    return isInOrder ? place.dim : back[place.dim];
  };
  GroupAttr group = axis.group;
  PartsAttr parts = axis.getParts(from.isPart() ? from.blocks : to.blocks);

  RankedTensorType moved = typeOf(input);
  auto resize = [&](int64_t dim, int64_t size) {
    SmallVector<int64_t> shape(moved.getShape());
    shape[dim] = size;
    return RankedTensorType::get(shape, moved.getElementType());
  };
  Value result;
  if (!from.isPart() && from != kWholePlace && to == kWholePlace)
    result = AllReduceOp::create(builder, loc, moved, input,
                                 from == kGreatestPlace ? Reduction::Max
                                                        : Reduction::Sum,
                                 group, FlatSymbolRefAttr(), Purpose::Step);
  else if (from == kPartialPlace) {
    auto scatter = ReduceScatterOp::create(
        builder, loc, resize(dimOf(to), whole.getDimSize(to.dim) / ranks),
        input, Reduction::Sum, dimOf(to), group, FlatSymbolRefAttr(),
        Purpose::Step);
    scatter.setPartsAttr(parts);
    result = scatter;
  } else if (to == kPartialPlace)
    result = SummandOp::create(builder, loc, moved, input, group);
  else if (to == kWholePlace)
    result = AllGatherOp::create(
        builder, loc, resize(dimOf(from), whole.getDimSize(from.dim)), input,
        dimOf(from), group, parts, Purpose::Step);
  else
    result = ShardOp::create(
        builder, loc, resize(dimOf(to), whole.getDimSize(to.dim) / ranks),
        input, dimOf(to), group, parts, Purpose::Step);
  if (!isInOrder)
    result = buildPermute(builder, loc, result, back);
  return {result, to};
}
