//===- Float8Gathers.cpp - Parameters travel in eight bits ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/Passes.h"
#include "passes/analysis/Programs.h"
#include "passes/analysis/Transfers.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace fsdp;

namespace fsdp {
#define GEN_PASS_DEF_FLOAT8GATHERS
#include "passes/Passes.h.inc"
} // namespace fsdp

namespace {

bool makesNumber(Operation &op) {
  auto type = op.getNumResults() == 1
                  ? dyn_cast<RankedTensorType>(op.getResult(0).getType())
                  : RankedTensorType();
  return type && type.getRank() == 0;
}

/// The gathers of one program whose readers scale and cast them.
class Float8Mover {
public:
  explicit Float8Mover(func::FuncOp func) : body(func.getBody().front()) {}

  void run() {
    for (AllGatherOp gather : llvm::to_vector(body.getOps<AllGatherOp>()))
      if (!isOfStep(gather) && isa<BlockArgument>(gather.getShard()))
        move(gather);
    // All maxima in front of what is computed of them: they travel together.
    SmallVector<Operation *> head = amaxes;
    llvm::append_range(head, maxima);
    appendScales(head);
    for (Operation *op : llvm::reverse(head))
      op->moveBefore(&body, body.begin());
  }

private:
  void move(AllGatherOp gather) {
    for (Operation *user : llvm::to_vector(gather.getFull().getUsers()))
      if (auto amax = dyn_cast<AmaxOp>(user))
        reduce(gather, amax);
      else if (auto encode = dyn_cast<EncodeOp>(user))
        encodeShard(gather, encode);
    if (gather.getFull().use_empty())
      gather->erase();
  }

  void reduce(AllGatherOp gather, AmaxOp amax) {
    amax.getInputMutable().assign(gather.getShard());
    OpBuilder builder(amax.getContext());
    builder.setInsertionPointAfter(amax);
    Value greatest = amax.getResult();
    auto reduce = AllReduceOp::create(
        builder, amax.getLoc(), greatest.getType(), greatest, Reduction::Max,
        gather.getGroup(), FlatSymbolRefAttr(), Purpose::Scale);
    greatest.replaceAllUsesExcept(reduce.getResult(), reduce);
    amaxes.push_back(amax);
    maxima.push_back(reduce);
  }

  /// The shard is encoded, and gathered behind it.
  static void encodeShard(AllGatherOp gather, EncodeOp encode) {
    RankedTensorType type = encode.getCode().getType();
    OpBuilder here(encode);
    auto shard =
        EncodeOp::create(here, encode.getLoc(),
                         getShardType(type, gather.getDim(), gather.getGroup()),
                         gather.getShard(), encode.getScale());
    auto moved =
        AllGatherOp::create(here, gather.getLoc(), type, shard.getCode(),
                            gather.getDim(), gather.getGroup(), PartsAttr());
    encode.getCode().replaceAllUsesWith(moved.getFull());
    encode.erase();
  }

  /// What is computed of maxima alone: other gathers of a bucket may stand in
  /// front of where it was.
  void appendScales(SmallVectorImpl<Operation *> &head) {
    llvm::DenseSet<Operation *> known(maxima.begin(), maxima.end());
    for (Operation &op : body) {
      auto isKnown = [&](Value operand) {
        return known.contains(operand.getDefiningOp());
      };
      if (known.contains(&op) || !makesNumber(op) ||
          llvm::none_of(op.getOperands(), isKnown) ||
          !llvm::all_of(op.getOperands(), [&](Value operand) {
            return isKnown(operand) || operand.getDefiningOp<ConstantOp>();
          }))
        continue;
      for (Value operand : op.getOperands())
        if (auto constant = operand.getDefiningOp<ConstantOp>();
            constant && known.insert(constant).second)
          head.push_back(constant);
      known.insert(&op);
      head.push_back(&op);
    }
  }

  Block &body;
  SmallVector<Operation *> amaxes, maxima;
};

struct Float8Gathers final : fsdp::impl::Float8GathersBase<Float8Gathers> {
  void runOnOperation() override {
    if (getSetting<Float8Attr>(getOperation()).getAllGather())
      for (func::FuncOp func : getPrograms(getOperation()))
        Float8Mover(func).run();
  }
};

} // namespace
