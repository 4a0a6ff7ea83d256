//===- CopyBuckets.cpp - One tensor for a bucket, as FSDP2 has it ---------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/aten/Aten.h"
#include "passes/Passes.h"
#include "passes/analysis/Programs.h"
#include "passes/analysis/RankMajor.h"
#include "passes/analysis/TensorBuilders.h"

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

/// Whether all members of a transfer are parameters in that layout, or their
/// gradients.
bool isCopied(Operation *start, const StateTable &states) {
  return llvm::all_of(llvm::seq(start->getNumOperands()),
                      [&](unsigned operand) {
                        StateOp state = getMovedState(start, operand, states);
                        return state && state.getLayout() == Layout::Fsdp2;
                      });
}

/// Replaces one transfer of members by one of a tensor that they are copied
/// into.
class Copier {
public:
  explicit Copier(Operation *start)
      : start(start), wait(cast<WaitOp>(*start->getResult(0).user_begin())),
        promised(cast<FutureType>(start->getResult(0).getType()).getTensors()),
        group(start->getAttrOfType<GroupAttr>("group")), ranks(group.getSize()),
        loc(start->getLoc()), builder(start) {}

  void run() {
    if (auto gather = dyn_cast<AllGatherStartOp>(start))
      copy(gather);
    else if (auto scatter = dyn_cast<ReduceScatterStartOp>(start))
      copy(scatter);
    else
      copy(cast<AllReduceStartOp>(start));
    wait.erase();
    start->erase();
  }

private:
  void copy(AllGatherStartOp gather) {
    Value piece = buildPiece(builder, loc, gather.getInputs());
    Value pieces = waitFor(AllGatherStartOp::create(
        builder, loc, promise({typeOf(piece).getNumElements() * ranks}), piece,
        kDim, group, gather.getStream(), gather.getBucketAttr()));
    SmallVector<int64_t> offsets =
        getPieceOffsets(llvm::to_vector(gather.getInputs().getTypes()));
    for (auto [input, result, offset] :
         llvm::zip(gather.getInputs(), wait.getResults(), offsets))
      result.replaceAllUsesWith(buildMemberOfPieces(
          builder, loc, pieces, ranks, offset, typeOf(input), typeOf(result)));
    FreeOp::create(builder, loc, pieces);
  }

  void copy(ReduceScatterStartOp scatter) {
    Value pieces = buildPieces(builder, loc, scatter.getInputs(), ranks);
    auto reduced = ReduceScatterStartOp::create(
        builder, loc, promise({1, typeOf(pieces).getDimSize(1)}), pieces,
        scatter.getReduction(), kDim, ArrayAttr(), scatter.getPreAttr(),
        scatter.getPostAttr(), group, scatter.getStream(),
        scatter.getBucketAttr());
    viewMembers(waitFor(reduced));
  }

  /// What a reduction left in one tensor is reduced there; sums of
  /// micro-batches are copied.
  void copy(AllReduceStartOp reduce) {
    SmallVector<Value> views(reduce.getInputs());
    Value piece = getWhole(views);
    bool isOwn = !piece;
    if (isOwn)
      piece = buildPiece(builder, loc, views);
    auto reduced = AllReduceStartOp::create(
        builder, loc, promise(typeOf(piece).getShape()), piece,
        reduce.getReduction(), ArrayAttr(), reduce.getPreAttr(),
        reduce.getPostAttr(), group, reduce.getStream(),
        reduce.getBucketAttr());
    viewMembers(waitFor(reduced));
    if (isOwn)
      return;
    start->dropAllReferences();
    for (Value view : views)
      view.getDefiningOp()->erase();
  }

  /// The tensor that `members` are all views of in order, if nothing else reads
  /// them; it may be overwritten then.
  static Value getWhole(ArrayRef<Value> members) {
    Value whole;
    int64_t end = 0;
    for (Value member : members) {
      if (!isa_and_nonnull<ReduceScatterStartOp>(getMovedMember(member).start))
        return {};
      Operation *view = member.getDefiningOp();
      auto offset =
          cast<IntegerAttr>(aten::getStaticArgument(view, "storage_offset"));
      if (!member.hasOneUse() || offset.getInt() != end ||
          (whole && view->getOperand(0) != whole))
        return {};
      whole = view->getOperand(0);
      end += typeOf(member).getNumElements();
    }
    bool isAll = typeOf(whole).getNumElements() == end &&
                 llvm::range_size(whole.getUsers()) == members.size();
    return isAll ? whole : Value();
  }

  FutureType promise(ArrayRef<int64_t> shape) {
    Type element = cast<RankedTensorType>(promised.front()).getElementType();
    return FutureType::get(builder.getContext(),
                           {RankedTensorType::get(shape, element)});
  }

  /// Waits where the members were waited for; what follows is built there.
  Value waitFor(Operation *copied) {
    builder.setInsertionPoint(wait);
    Value future = copied->getResult(0);
    return WaitOp::create(builder, loc,
                          cast<FutureType>(future.getType()).getTensors(),
                          future)
        .getResult(0);
  }

  void viewMembers(Value piece) {
    for (auto [result, offset] :
         llvm::zip(wait.getResults(), getPieceOffsets(promised)))
      result.replaceAllUsesWith(
          buildView(builder, loc, piece, offset, typeOf(result)));
  }

  Operation *start;
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
    SmallVector<Operation *> starts;
    for (func::FuncOp func : getPrograms(getOperation()))
      for (Operation &op : func.getBody().front())
        if (isStart(&op) && isCopied(&op, states))
          starts.push_back(&op);
    for (Operation *start : starts)
      Copier(start).run();
  }
};

} // namespace
