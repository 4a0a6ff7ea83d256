//===- ShardVerifier.cpp - What may be done with shards -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/verify/ShardVerifier.h"

#include "ir/aten/Matchers.h"
#include "passes/analysis/Encodings.h"
#include "passes/analysis/Mesh.h"
#include "passes/analysis/Transfers.h"

using namespace mlir;
using namespace fsdp;

AllReduceOp fsdp::getMaximum(EncodeOp encode) {
  auto scale = encode.getScale().getDefiningOp<ScaleOp>();
  auto maximum =
      scale ? scale.getAmax().getDefiningOp<AllReduceOp>() : AllReduceOp();
  return maximum && maximum.getReduction() == Reduction::Max ? maximum
                                                             : AllReduceOp();
}

LogicalResult ShardVerifier::verifyParallel(Operation &op) const {
  GroupAttr found;
  Purpose purpose = Purpose::Parameter;
  if (auto collective = dyn_cast<CollectiveOpInterface>(op)) {
    found = collective.getGroup();
    purpose = collective.getPurpose();
  } else if (auto shard = dyn_cast<ShardOp>(op)) {
    found = shard.getGroup();
    purpose = shard.getPurpose();
  } else {
    return success();
  }
  auto told = getSetting<ParallelAttr>(func->getParentOfType<ModuleOp>());
  GroupAttr tensor = mesh.getGroup(kTensorAxis);
  GroupAttr context = told ? getContextGroup(told) : GroupAttr();
  if (purpose != Purpose::Step) {
    // They may be all ranks there are, which have metrics in common.
    bool isSharded =
        purpose == Purpose::Parameter || purpose == Purpose::Gradient;
    if (!isSharded || (found != tensor && found != context))
      return success();
    return op.emitOpError("expects what ranks along '")
           << found.getName().getValue()
           << "' exchange to be 'for step', since they compute it together";
  }
  if (auto collective = dyn_cast<CollectiveOpInterface>(op)) {
    if (FlatSymbolRefAttr of = collective.getGradientOf(0))
      return op.emitOpError("reduces the gradient of '")
             << of.getValue() << "' over '" << found.getName().getValue()
             << "', whose ranks have computed it together";
  }
  if (found == tensor || found == context)
    return success();
  return op.emitOpError("expects the ranks along '")
         << found.getName().getValue() << "' of the mesh " << mesh << ", found "
         << found;
}

LogicalResult ShardVerifier::verifyPadding(Operation &op) {
  auto isOfShard = [&](Value value) {
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      StateOp state = states.lookup(func, argument.getArgNumber());
      return state && state.getSharding();
    }
    return shards.contains(value);
  };
  bool reads = llvm::any_of(op.getOperands(), isOfShard);
  if (auto encode = dyn_cast<EncodeOp>(op);
      encode && reads && failed(verifyScale(encode)))
    return failure();
  // Zeros stay zeros, also in what lies between two shards.
  StringRef name = op.getName().getStringRef();
  bool isDifference = name == "aten.clone" ||
                      (name == "aten.sub.Tensor" &&
                       llvm::all_of(op.getOperands(), isOfShard)) ||
                      (name == "aten.lerp.Tensor" &&
                       llvm::all_of(op.getOperands().take_front(2), isOfShard));
  bool keeps = isShardSide(&op) || isDifference ||
               isa<AllReduceOp, AccumulateOp, DecodeOp>(op) ||
               isa<UpdateOp>(op);
  if (reads && !keeps &&
      !isa<CollectiveOpInterface, func::ReturnOp, AmaxOp, BlockMaximaOp,
           SquareSumOp>(op) &&
      !aten::isNorm(&op))
    return op.emitOpError("reads a shard, whose padding rows it may change; "
                          "expected casts, collectives, norms and "
                          "optimizers only");
  // What ranks compute together has parts of one size, without padding.
  if (isOfStep(&op))
    return success();
  if (isa<ReduceScatterOp, ShardOp>(op) || (reads && keeps))
    for (Value result : op.getResults())
      shards.insert(result);
  return success();
}

LogicalResult ShardVerifier::verifyScale(EncodeOp encode) const {
  BlockArgument argument = getShardSource(encode.getInput());
  StateOp state =
      argument ? states.lookup(func, argument.getArgNumber()) : StateOp();
  // Those of the ranks that hold shards, and of those that have parts.
  SmallVector<GroupAttr> groups;
  AmaxOp amax;
  for (AllReduceOp maximum = getMaximum(encode); maximum;
       maximum = maximum.getInput().getDefiningOp<AllReduceOp>()) {
    if (maximum.getReduction() != Reduction::Max)
      break;
    groups.push_back(maximum.getGroup());
    amax = getAmax(maximum);
  }
  if (amax && !amax.getDim() && state && state.getSharding() &&
      llvm::is_contained(groups, state.getSharding().getGroup()) &&
      (!state.getSplit() ||
       llvm::is_contained(groups, state.getSplit()->getGroup())) &&
      getShardSource(amax.getInput()) == argument)
    return success();
  return encode.emitOpError("expects a scale of the greatest value of all "
                            "shards of the parameter that it scales");
}
