//===- Programs.cpp - Functions of a module and their states --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/analysis/Programs.h"

using namespace mlir;
using namespace fsdp;

bool fsdp::isReference(func::FuncOp func) {
  return func.getSymName().starts_with(kReferencePrefix);
}

bool fsdp::isInference(func::FuncOp func) {
  return func.getSymName().starts_with(kInferencePrefix);
}

SmallVector<func::FuncOp> fsdp::getPrograms(ModuleOp module) {
  SmallVector<func::FuncOp> programs;
  for (auto func : module.getOps<func::FuncOp>())
    if (!func.isExternal() && !isReference(func))
      programs.push_back(func);
  return programs;
}

FailureOr<MeshAttr> fsdp::getDataMesh(ModuleOp module) {
  auto mesh = module->getAttrOfType<MeshAttr>(kMeshAttr);
  if (!mesh)
    return module.emitError(
        "expects a sharded program; run fsdp-shard-parameters first");
  if (GroupAttr group = mesh.getGroup("shard");
      !group || group.getSize() != mesh.getWorldSize())
    return module.emitError("expects a mesh whose one axis is 'shard', found ")
           << mesh;
  return mesh;
}

bool fsdp::isParameter(StateOp state) {
  return state.getRole() == Role::Parameter || state.getRole() == Role::Frozen;
}

StateTable::StateTable(ModuleOp module) {
  for (StateOp state : module.getOps<StateOp>()) {
    byName[state.getSymNameAttr()] = state;
    index[state] = states.size();
    states.push_back(state);
  }
}

StateOp StateTable::lookup(StringAttr name) const {
  return byName.lookup(name);
}

bool fsdp::isShardSide(Operation *op) {
  return isa<ReplayOp>(op) || op->getName().getStringRef() == "aten._to_copy";
}

BlockArgument fsdp::getShardSource(Value shard) {
  while (Operation *op = shard.getDefiningOp()) {
    if (!isShardSide(op))
      return {};
    shard = op->getOperand(0);
  }
  return cast<BlockArgument>(shard);
}

bool fsdp::isStart(Operation *op) {
  return isa<AllGatherStartOp, ReduceScatterStartOp, AllReduceStartOp,
             CopyStartOp>(op);
}

Value fsdp::getTransferred(Value value) {
  auto wait = value.getDefiningOp<WaitOp>();
  Operation *start = wait ? wait.getFuture().getDefiningOp() : nullptr;
  if (!start || !isStart(start))
    return {};
  return start->getOperand(cast<OpResult>(value).getResultNumber());
}

bool fsdp::isCollective(Operation *op) {
  return isStart(op) || isa<AllGatherOp, ReduceScatterOp, AllReduceOp>(op);
}
