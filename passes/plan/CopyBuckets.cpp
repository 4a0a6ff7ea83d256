//===- CopyBuckets.cpp - One tensor for a bucket, as FSDP2 has it ---------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each rank's shards of all members lie side by side. A gather puts the ranks'
// pieces one behind the other: rank-major, so that a member's rows lie
// scattered, at one offset in each piece. Gradients are laid out so before they
// are reduced.
//
//===----------------------------------------------------------------------===//

#include "ir/aten/Aten.h"
#include "passes/Passes.h"
#include "passes/analysis/Programs.h"
#include "passes/analysis/States.h"
#include "passes/analysis/TensorBuilders.h"
#include "passes/analysis/Transfers.h"

#include "llvm/ADT/Sequence.h"

using namespace mlir;
using namespace fsdp;

namespace fsdp {
#define GEN_PASS_DEF_COPYBUCKETS
#include "passes/Passes.h.inc"
} // namespace fsdp

namespace {

/// Pieces are cut, and put one behind the other, along the first dim.
constexpr int64_t kDim[] = {0};

RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

/// What one of `ranks` pieces has of a full tensor, missing rows included.
int64_t getPieceElements(RankedTensorType full, int64_t ranks) {
  int64_t rows = full.getDimSize(0);
  return getShardRows(rows, ranks) * (full.getNumElements() / rows);
}

/// Elements of each type's tensor, added up: where members begin in one rank's
/// piece, in elements. The piece's size comes last.
SmallVector<int64_t> getPieceOffsets(ArrayRef<Type> shards) {
  SmallVector<int64_t> offsets{0};
  for (Type shard : shards)
    offsets.push_back(offsets.back() +
                      cast<RankedTensorType>(shard).getNumElements());
  return offsets;
}

/// Shards side by side: one rank's piece, of one dim.
Value buildPiece(OpBuilder &builder, Location loc, ValueRange shards) {
  SmallVector<int64_t> offsets =
      getPieceOffsets(llvm::to_vector(shards.getTypes()));
  int64_t size = offsets.pop_back_val();
  auto type =
      RankedTensorType::get({size}, typeOf(shards.front()).getElementType());
  return PackOp::create(builder, loc, type, shards, offsets,
                        FlatSymbolRefAttr());
}

/// Full tensors as `ranks` pieces, with zeros for missing rows: one piece a
/// row.
Value buildPieces(OpBuilder &builder, Location loc, ValueRange full,
                  int64_t ranks) {
  int64_t size = 0;
  for (Value each : full)
    size += getPieceElements(typeOf(each), ranks);
  SmallVector<Value> tensors(full);
  return aten::buildAtenOp(
             builder, loc, "aten._chunk_cat", {ArrayRef<Value>(tensors)},
             {builder.getNamedAttr("dim", builder.getI64IntegerAttr(0)),
              builder.getNamedAttr("num_chunks",
                                   builder.getI64IntegerAttr(ranks))},
             {RankedTensorType::get({ranks, size},
                                    typeOf(full.front()).getElementType())})
      ->getResult(0);
}

/// A member's rows where they lie in `ranks` pieces.
RankedTensorType getScatteredType(RankedTensorType pieces, int64_t ranks,
                                  RankedTensorType shard) {
  return aten::getTensorType({ranks, shard.getNumElements()},
                             {pieces.getNumElements() / ranks, 1},
                             shard.getElementType());
}

/// A copy of the rows of a member out of the `ranks` pieces that `pieces`
/// holds: `full` has them all, `shard` is what one piece has of it.
Value buildMemberOfPieces(OpBuilder &builder, Location loc, Value pieces,
                          int64_t ranks, int64_t offset, RankedTensorType shard,
                          RankedTensorType full) {
  Value scattered = buildView(builder, loc, pieces, offset,
                              getScatteredType(typeOf(pieces), ranks, shard));
  return buildView(builder, loc, buildContiguousCopy(builder, loc, scattered),
                   0, full);
}

/// Whether all members of a transfer are parameters in that layout, or their
/// gradients.
bool isCopied(StartOpInterface start, const StateTable &states) {
  return llvm::all_of(llvm::seq<unsigned>(0, start.getInputs().size()),
                      [&](unsigned operand) {
                        StateOp state = getMovedState(start, operand, states);
                        return state && state.getCopied();
                      });
}

/// A view of a reduced piece: the piece, and where the view begins in it.
struct ReducedMember {
  Value piece;
  int64_t offset;
};
using ReducedMembers = llvm::DenseMap<Value, ReducedMember>;

/// Replaces one transfer of members by one of a tensor that they are copied
/// into. Adds the members of what is reduced and scattered to `scattered`.
class Copier {
public:
  Copier(StartOp start, ReducedMembers &scattered)
      : scattered(scattered), start(start),
        wait(cast<WaitOp>(*start.getFuture().user_begin())),
        promised(start.getPromised()), group(start.getGroup()),
        ranks(group.getSize()), loc(start->getLoc()), builder(start) {}

  void run() {
    if (start.getKind() == Collective::AllGather)
      gather();
    else if (start.getKind() == Collective::ReduceScatter)
      scatter();
    else
      reduce();
    wait.erase();
    start->erase();
  }

private:
  /// The same with a tensor that members are copied into.
  StartOp startCopied(Value tensor, ArrayRef<int64_t> shape) {
    // A sum may be of another type than its operands.
    Type element = cast<RankedTensorType>(promised.front()).getElementType();
    auto type = FutureType::get(builder.getContext(),
                                {RankedTensorType::get(shape, element)});
    auto copied = StartOp::create(builder, loc, type, tensor, start.getKind(),
                                  group, start.getPurpose(), start.getStream(),
                                  start.getBucketAttr());
    copied.setCombinationAttr(start.getCombinationAttr());
    copied.setPreAttr(start.getPreAttr());
    copied.setPostAttr(start.getPostAttr());
    if (movesRows(start.getKind()))
      copied.setDims(ArrayRef<int64_t>(kDim));
    copied->setAttr(kCopiedAttr,
                    builder.getI64IntegerAttr(start->getNumOperands()));
    return copied;
  }

  void gather() {
    Value piece = buildPiece(builder, loc, start.getInputs());
    Value pieces =
        waitFor(startCopied(piece, {typeOf(piece).getNumElements() * ranks}));
    SmallVector<int64_t> offsets =
        getPieceOffsets(llvm::to_vector(start.getInputs().getTypes()));
    for (auto [input, result, offset] :
         llvm::zip(start.getInputs(), wait.getResults(), offsets))
      result.replaceAllUsesWith(buildMemberOfPieces(
          builder, loc, pieces, ranks, offset, typeOf(input), typeOf(result)));
    FreeOp::create(builder, loc, pieces);
  }

  void scatter() {
    Value pieces = buildPieces(builder, loc, start.getInputs(), ranks);
    Value piece =
        waitFor(startCopied(pieces, {1, typeOf(pieces).getDimSize(1)}));
    viewMembers(piece);
    for (auto [member, offset] : llvm::zip(views, getPieceOffsets(promised)))
      scattered[member] = {piece, offset};
  }

  /// What a reduction left in one tensor is reduced there; sums of
  /// micro-batches are copied.
  void reduce() {
    SmallVector<Value> members(start.getInputs());
    Value piece = getWhole(members);
    bool isOwn = !piece;
    if (isOwn)
      piece = buildPiece(builder, loc, members);
    viewMembers(waitFor(startCopied(piece, typeOf(piece).getShape())));
    if (isOwn)
      return;
    start->dropAllReferences();
    for (Value member : members) {
      scattered.erase(member);
      member.getDefiningOp()->erase();
    }
  }

  /// The tensor that `members` are all views of in order, if nothing else reads
  /// them; it may be overwritten then.
  Value getWhole(ArrayRef<Value> members) const {
    Value whole;
    int64_t end = 0;
    for (Value member : members) {
      ReducedMember found = scattered.lookup(member);
      if (!found.piece || !member.hasOneUse() || found.offset != end ||
          (whole && found.piece != whole))
        return {};
      whole = found.piece;
      end += typeOf(member).getNumElements();
    }
    bool isAll = typeOf(whole).getNumElements() == end &&
                 llvm::range_size(whole.getUsers()) == members.size();
    return isAll ? whole : Value();
  }

  /// Waits where the members were waited for; what follows is built there.
  Value waitFor(StartOp copied) {
    builder.setInsertionPoint(wait);
    return WaitOp::create(builder, loc, copied.getPromised(),
                          copied.getFuture())
        .getResult(0);
  }

  void viewMembers(Value piece) {
    for (auto [result, offset] :
         llvm::zip(wait.getResults(), getPieceOffsets(promised))) {
      views.push_back(buildView(builder, loc, piece, offset, typeOf(result)));
      result.replaceAllUsesWith(views.back());
    }
  }

  ReducedMembers &scattered;
  SmallVector<Value> views; ///< of a reduced piece
  StartOp start;
  WaitOp wait;
  ArrayRef<Type> promised;
  GroupAttr group;
  int64_t ranks;
  Location loc;
  OpBuilder builder;
};

struct CopyBuckets final : fsdp::impl::CopyBucketsBase<CopyBuckets> {
  void runOnOperation() override {
    StateTable states(getOperation());
    SmallVector<StartOp> starts;
    for (func::FuncOp func : getPrograms(getOperation()))
      for (auto start : func.getBody().getOps<StartOp>())
        if (isCopied(start, states))
          starts.push_back(start);
    ReducedMembers scattered;
    for (StartOp start : starts)
      Copier(start, scattered).run();
  }
};

} // namespace
