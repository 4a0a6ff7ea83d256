//===- Transfers.cpp - Among ranks, and between memories ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/emit/PlanEnums.h"
#include "passes/emit/ProgramEmitter.h"

using namespace mlir;
using namespace fsdp;

LogicalResult fsdp::emit(StartOp op, ProgramEmitter &emitter) {
  const StateTable &states = emitter.states;
  plan::TransferT body;
  body.kind = toPlan(op.getKind());
  body.purpose = toPlan(op.getPurpose());
  body.bucket = op.getBucket().value_or("").str();
  body.group = emitter.context.getGroup(op.getGroup());
  body.stream = toPlan(op.getStream());
  body.inputs = emitter.idsOf(op.getInputs());
  body.outputs = emitter.promisedIdsOf(op);
  body.future = emitter.futureOf(op.getFuture());
  body.reduction = toPlan(op.getReduction());
  if (FloatAttr pre = op.getPreAttr())
    body.pre = pre.getValueAsDouble();
  if (FloatAttr post = op.getPostAttr())
    body.post = post.getValueAsDouble();
  if (std::optional<ArrayAttr> of = op.getOf())
    for (auto state : of->getAsRange<FlatSymbolRefAttr>())
      body.of.push_back(states.getIndex(states.lookup(state)));
  return emitter.add(std::move(body), op.getLoc());
}

LogicalResult fsdp::emit(CopyStartOp op, ProgramEmitter &emitter) {
  plan::CopyAcrossT body;
  body.bucket = op.getBucket().value_or("").str();
  body.to = toPlan(op.getTo());
  body.stream = toPlan(op.getStream());
  body.inputs = emitter.idsOf(op.getInputs());
  body.outputs = emitter.promisedIdsOf(op);
  body.future = emitter.futureOf(op.getFuture());
  return emitter.add(std::move(body), op.getLoc());
}

LogicalResult fsdp::emit(WaitOp op, ProgramEmitter &emitter) {
  plan::WaitT body;
  body.future = emitter.futureOf(op.getFuture());
  return emitter.add(std::move(body), op.getLoc());
}
