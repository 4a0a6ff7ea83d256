//===- Float8Gathers.cpp - Parameters travel in eight bits ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/aten/Matchers.h"
#include "passes/Passes.h"
#include "passes/analysis/Float8.h"
#include "passes/analysis/Programs.h"

#include "mlir/IR/IRMapping.h"
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
    SmallVector<Operation *> head = norms;
    llvm::append_range(head, maxima);
    appendScales(head);
    for (Operation *op : llvm::reverse(head))
      op->moveBefore(&body, body.begin());
  }

private:
  void move(AllGatherOp gather) {
    SmallVector<Operation *> norms, scalings;
    for (Operation *user : gather.getFull().getUsers()) {
      if (isGreatest(user))
        norms.push_back(user);
      for (Operation *each : {user, aten::isPlainCast(user) && user->hasOneUse()
                                        ? *user->user_begin()
                                        : nullptr})
        if (isFloat8Scaling(each))
          scalings.push_back(each);
    }
    for (Operation *norm : norms)
      reduce(gather, norm);
    for (Operation *scaling : scalings)
      moveCasts(gather, scaling);
    if (gather.getFull().use_empty())
      gather->erase();
  }

  void reduce(AllGatherOp gather, Operation *norm) {
    norm->setOperand(0, gather.getShard());
    OpBuilder builder(norm->getContext());
    builder.setInsertionPointAfter(norm);
    Value greatest = norm->getResult(0);
    auto reduce = AllReduceOp::create(
        builder, norm->getLoc(), greatest.getType(), greatest, Reduction::Max,
        gather.getGroup(), FlatSymbolRefAttr(), Purpose::Scale);
    greatest.replaceAllUsesExcept(reduce.getResult(), reduce);
    norms.push_back(norm);
    maxima.push_back(reduce);
  }

  /// A cast to f32, if there is one, the scaling, and each cast to eight bits
  /// with a gather of its own behind it.
  void moveCasts(AllGatherOp gather, Operation *scaling) {
    auto toShard = [&](Operation *op, IRMapping &mapping) {
      OpBuilder here(op);
      Operation *made = here.clone(*op, mapping);
      auto full = cast<RankedTensorType>(op->getResult(0).getType());
      made->getResult(0).setType(
          getShardType(full, gather.getDim(), gather.getGroup()));
      return made;
    };
    IRMapping mapping;
    mapping.map(gather.getFull(), gather.getShard());
    Operation *widening = scaling->getOperand(0).getDefiningOp();
    if (widening != gather.getOperation())
      toShard(widening, mapping);
    Operation *made = toShard(scaling, mapping);
    for (Operation *narrowing : llvm::to_vector(scaling->getUsers())) {
      IRMapping inner;
      inner.map(scaling->getResult(0), made->getResult(0));
      Operation *shard = toShard(narrowing, inner);
      OpBuilder here(narrowing);
      auto moved = AllGatherOp::create(
          here, gather.getLoc(), narrowing->getResult(0).getType(),
          shard->getResult(0), gather.getDim(), gather.getGroup(), PartsAttr());
      narrowing->getResult(0).replaceAllUsesWith(moved.getFull());
      narrowing->erase();
    }
    scaling->erase();
    if (widening != gather.getOperation() && widening->use_empty())
      widening->erase();
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
  SmallVector<Operation *> norms, maxima;
};

struct Float8Gathers final : fsdp::impl::Float8GathersBase<Float8Gathers> {
  void runOnOperation() override {
    if (getSetting<Float8Attr>(getOperation()).getAllGather())
      for (func::FuncOp func : getPrograms(getOperation()))
        Float8Mover(func).run();
  }
};

} // namespace
