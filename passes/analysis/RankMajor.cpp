//===- RankMajor.cpp - Buckets that travel in one tensor ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/analysis/RankMajor.h"

#include "ir/aten/Aten.h"
#include "passes/analysis/TensorBuilders.h"

using namespace mlir;
using namespace fsdp;

static constexpr llvm::StringLiteral kChunkCat = "aten._chunk_cat";
static constexpr llvm::StringLiteral kAsStrided = "aten.as_strided";
static constexpr llvm::StringLiteral kClone = "aten.clone";

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

static bool isCalled(Operation *op, StringRef name) {
  return op && op->getName().getStringRef() == name;
}

static std::optional<int64_t> intOf(Operation *op, StringRef name) {
  auto value = dyn_cast_or_null<IntegerAttr>(aten::getStaticArgument(op, name));
  return value ? std::optional(value.getInt()) : std::nullopt;
}

/// What one of `ranks` pieces has of a full tensor, missing rows included.
static int64_t getPieceElements(RankedTensorType full, int64_t ranks) {
  int64_t rows = full.getDimSize(0);
  return getShardRows(rows, ranks) * (full.getNumElements() / rows);
}

//===----------------------------------------------------------------------===//
// Building
//===----------------------------------------------------------------------===//

SmallVector<int64_t> fsdp::getPieceOffsets(ArrayRef<Type> shards) {
  SmallVector<int64_t> offsets{0};
  for (Type shard : shards)
    offsets.push_back(offsets.back() +
                      cast<RankedTensorType>(shard).getNumElements());
  return offsets;
}

Value fsdp::buildPiece(OpBuilder &builder, Location loc, ValueRange shards) {
  SmallVector<int64_t> offsets =
      getPieceOffsets(llvm::to_vector(shards.getTypes()));
  int64_t size = offsets.pop_back_val();
  auto type =
      RankedTensorType::get({size}, typeOf(shards.front()).getElementType());
  return PackOp::create(builder, loc, type, shards, offsets,
                        FlatSymbolRefAttr());
}

Value fsdp::buildPieces(OpBuilder &builder, Location loc, ValueRange full,
                        int64_t ranks) {
  int64_t size = 0;
  for (Value each : full)
    size += getPieceElements(typeOf(each), ranks);
  SmallVector<Value> tensors(full);
  return aten::buildAtenOp(
             builder, loc, kChunkCat, {ArrayRef<Value>(tensors)},
             {builder.getNamedAttr("dim", builder.getI64IntegerAttr(0)),
              builder.getNamedAttr("num_chunks",
                                   builder.getI64IntegerAttr(ranks))},
             {RankedTensorType::get({ranks, size},
                                    typeOf(full.front()).getElementType())})
      ->getResult(0);
}

/// A member's rows where they lie in `ranks` pieces.
static RankedTensorType getScatteredType(RankedTensorType pieces, int64_t ranks,
                                         RankedTensorType shard) {
  return aten::getTensorType({ranks, shard.getNumElements()},
                             {pieces.getNumElements() / ranks, 1},
                             shard.getElementType());
}

Value fsdp::buildMemberOfPieces(OpBuilder &builder, Location loc, Value pieces,
                                int64_t ranks, int64_t offset,
                                RankedTensorType shard, RankedTensorType full) {
  Value scattered = buildView(builder, loc, pieces, offset,
                              getScatteredType(typeOf(pieces), ranks, shard));
  return buildView(builder, loc, buildContiguousCopy(builder, loc, scattered),
                   0, full);
}

//===----------------------------------------------------------------------===//
// Following
//===----------------------------------------------------------------------===//

/// The start whose wait yields `value`, which is all that it moves.
static Operation *getOnlyTransfer(Value value) {
  auto wait = value.getDefiningOp<WaitOp>();
  Operation *start = wait ? wait.getFuture().getDefiningOp() : nullptr;
  return start && start->getNumOperands() == 1 ? start : nullptr;
}

static GroupAttr groupOf(Operation *start) {
  return start->getAttrOfType<GroupAttr>("group");
}

/// A pack that is no flat state's.
static PackOp getPiece(Value value) {
  auto pack = value.getDefiningOp<PackOp>();
  return pack && !pack.getOf() ? pack : PackOp();
}

static Value findInPiece(PackOp pack, int64_t offset) {
  auto it = llvm::lower_bound(pack.getOffsets(), offset);
  if (it == pack.getOffsets().end() || *it != offset)
    return {};
  return pack.getInputs()[it - pack.getOffsets().begin()];
}

/// In whatever layout.
static bool haveSameElements(RankedTensorType a, RankedTensorType b) {
  return a.getShape() == b.getShape() &&
         a.getElementType() == b.getElementType();
}

/// Whether `shard` is what one rank of the group has of `full`.
static bool isShardOf(RankedTensorType shard, RankedTensorType full,
                      GroupAttr group) {
  return full.getRank() != 0 &&
         haveSameElements(getShardType(full, 0, group), shard);
}

/// The member that a view of a reduced piece is.
static MovedMember followPiece(Value piece, int64_t offset,
                               RankedTensorType type) {
  Operation *start = getOnlyTransfer(piece);
  if (!start)
    return {};
  Value moved = start->getOperand(0);
  if (isa<AllReduceStartOp>(start)) {
    PackOp pack = getPiece(moved);
    Value source = pack ? findInPiece(pack, offset)
                        : followPiece(moved, offset, type).source;
    bool isSame = source && (!pack || haveSameElements(typeOf(source), type));
    return isSame ? MovedMember{start, source} : MovedMember{};
  }
  Operation *pieces = moved.getDefiningOp();
  if (!isa<ReduceScatterStartOp>(start) || !isCalled(pieces, kChunkCat) ||
      intOf(pieces, "dim") != 0 ||
      intOf(pieces, "num_chunks") != groupOf(start).getSize())
    return {};
  int64_t begin = 0;
  for (Value full : pieces->getOperands()) {
    if (begin == offset)
      return isShardOf(type, typeOf(full), groupOf(start))
                 ? MovedMember{start, full}
                 : MovedMember{};
    begin += getPieceElements(typeOf(full), groupOf(start).getSize());
  }
  return {};
}

/// The member that is copied out of gathered pieces.
static MovedMember followPieces(Operation *scattered, RankedTensorType full) {
  if (!isCalled(scattered, kAsStrided))
    return {};
  Value pieces = scattered->getOperand(0);
  Operation *start = getOnlyTransfer(pieces);
  if (!isa_and_nonnull<AllGatherStartOp>(start))
    return {};
  PackOp pack = getPiece(start->getOperand(0));
  std::optional<int64_t> offset = intOf(scattered, "storage_offset");
  Value shard = pack && offset ? findInPiece(pack, *offset) : Value();
  if (!shard || !isShardOf(typeOf(shard), full, groupOf(start)) ||
      scattered->getResult(0).getType() !=
          getScatteredType(typeOf(pieces), groupOf(start).getSize(),
                           typeOf(shard)))
    return {};
  return {start, shard};
}

MovedMember fsdp::getMovedMember(Value value) {
  Operation *view = value.getDefiningOp();
  if (!isCalled(view, kAsStrided) || !aten::isContiguous(typeOf(value)))
    return {};
  std::optional<int64_t> offset = intOf(view, "storage_offset");
  Value source = view->getOperand(0);
  if (!offset)
    return {};
  if (Operation *copy = source.getDefiningOp(); isCalled(copy, kClone))
    return *offset == 0 ? followPieces(copy->getOperand(0).getDefiningOp(),
                                       typeOf(value))
                        : MovedMember{};
  return followPiece(source, *offset, typeOf(value));
}

ValueRange fsdp::getCopiedMembers(Value operand) {
  if (PackOp pack = getPiece(operand))
    return pack.getInputs();
  if (Operation *op = operand.getDefiningOp(); isCalled(op, kChunkCat))
    return op->getOperands();
  if (Operation *start = getOnlyTransfer(operand);
      isa_and_nonnull<ReduceScatterStartOp>(start))
    return getCopiedMembers(start->getOperand(0));
  return {};
}
