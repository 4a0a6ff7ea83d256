//===- Transfers.cpp - What moves shards and gradients --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/analysis/Transfers.h"

#include "ir/aten/Matchers.h"

using namespace mlir;
using namespace fsdp;

bool fsdp::isOfStep(Operation *op) {
  if (auto collective = dyn_cast_or_null<CollectiveOpInterface>(op))
    return collective.getPurpose() == Purpose::Step;
  auto shard = dyn_cast_or_null<ShardOp>(op);
  return shard && shard.getPurpose() == Purpose::Step;
}

bool fsdp::isShardSide(Operation *op) {
  return isa<ReplayOp, CopyOp, EncodeOp>(op) || aten::isCast(op);
}

CopyStartOp fsdp::getCopy(Value value) {
  auto wait = value.getDefiningOp<WaitOp>();
  return wait ? wait.getFuture().getDefiningOp<CopyStartOp>() : CopyStartOp();
}

Value fsdp::getShardSideOperand(Value shard) {
  Operation *op = shard.getDefiningOp();
  if (!op)
    return {};
  if (isShardSide(op))
    return op->getOperand(0);
  return getCopy(shard) ? getTransferred(shard) : Value();
}

bool fsdp::isReplayed(Value shard) {
  for (; shard; shard = getShardSideOperand(shard))
    if (shard.getDefiningOp<ReplayOp>())
      return true;
  return false;
}

bool fsdp::isGiven(Value value) {
  while (auto replay = value.getDefiningOp<ReplayOp>())
    value = replay.getInput();
  return isa<BlockArgument>(value);
}

bool fsdp::isReadByGathersOnly(Operation *op) {
  return llvm::all_of(op->getUsers(), [](Operation *user) {
    return isStart(user, Collective::AllGather) || isa<CopyStartOp>(user) ||
           (isShardSide(user) && isReadByGathersOnly(user));
  });
}

BlockArgument fsdp::getUpdatedArgument(Value param) {
  if (auto copy = param.getDefiningOp<CopyOp>())
    param = copy.getInput();
  else if (getCopy(param))
    param = getTransferred(param);
  return dyn_cast<BlockArgument>(param);
}

BlockArgument fsdp::getShardSource(Value shard) {
  while (Operation *op = shard.getDefiningOp()) {
    // A part that was kept of a gathered tensor.
    if (auto part = dyn_cast<ShardOp>(op)) {
      if (isOfStep(part))
        return {};
      if (auto gather = part.getFull().getDefiningOp<AllGatherOp>())
        shard = gather.getShard();
      else if (Value moved = getTransferred(part.getFull()))
        shard = moved;
      else
        return {};
      continue;
    }
    shard = getShardSideOperand(shard);
    if (!shard)
      return {};
  }
  return cast<BlockArgument>(shard);
}

bool fsdp::isReductionTail(Operation *op) {
  if (auto reduce = dyn_cast<AllReduceOp>(op))
    return reduce.getOf().has_value();
  return isa<AccumulateOp, CopyOp, DecodeOp>(op) || aten::isCast(op);
}

SmallVector<Operation *>
fsdp::collectReaders(ArrayRef<Operation *> ops,
                     llvm::function_ref<bool(Operation *)> isWanted) {
  llvm::SmallSetVector<Operation *, 8> found;
  SmallVector<Operation *> worklist(ops);
  while (!worklist.empty())
    for (Operation *reader : worklist.pop_back_val()->getUsers())
      if (isWanted(reader) && found.insert(reader))
        worklist.push_back(reader);
  return found.takeVector();
}

StartOpInterface fsdp::getTransfer(Value value) {
  auto wait = value.getDefiningOp<WaitOp>();
  return wait ? wait.getStart() : StartOpInterface();
}

Value fsdp::getTransferred(Value value) {
  auto wait = value.getDefiningOp<WaitOp>();
  return wait ? wait.getForwarded(cast<OpResult>(value)) : Value();
}

StateOp fsdp::getMovedState(StartOpInterface start, unsigned operand,
                            const StateTable &states) {
  if (FlatSymbolRefAttr of = start.getGradientOf(operand))
    return states.lookup(of);
  BlockArgument source =
      isStart(start, Collective::AllGather) && !isOfStep(start)
          ? getShardSource(start.getInputs()[operand])
          : BlockArgument();
  return source ? states.lookup(start->getParentOfType<func::FuncOp>(),
                                source.getArgNumber())
                : StateOp();
}
