//===- Memories.cpp - Which memory a tensor lies in -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/analysis/Memories.h"

using namespace mlir;
using namespace fsdp;

static bool isConstant(Value value) {
  return isa_and_nonnull<ConstantOp>(value.getDefiningOp());
}

static MemorySpace getOther(MemorySpace memory) {
  return memory == MemorySpace::Host ? MemorySpace::Device : MemorySpace::Host;
}

static StateOp lookupState(func::FuncOp program, FlatSymbolRefAttr name) {
  auto module = program->getParentOfType<ModuleOp>();
  return name && module ? module.lookupSymbol<StateOp>(name.getAttr())
                        : StateOp();
}

/// Names of the states on the host; most modules have none.
static DenseSet<Attribute> listHostStates(func::FuncOp program) {
  DenseSet<Attribute> names;
  if (auto module = program->getParentOfType<ModuleOp>())
    for (auto state : module.getOps<StateOp>())
      if (state.isOnHost())
        names.insert(FlatSymbolRefAttr::get(state.getSymNameAttr()));
  return names;
}

bool fsdp::isOnHost(func::FuncOp program, unsigned argument) {
  StateOp state = lookupState(
      program,
      program.getArgAttrOfType<FlatSymbolRefAttr>(argument, kStateAttr));
  return state && state.isOnHost();
}

Memories::Memories(func::FuncOp program) {
  DenseSet<Attribute> states = listHostStates(program);
  for (BlockArgument argument : program.getArguments())
    if (!states.empty() && states.contains(program.getArgAttr(
                               argument.getArgNumber(), kStateAttr)))
      onHost.insert(argument);
  for (Operation &op : program.getBody().front()) {
    bool makesOnHost = false;
    if (auto copy = dyn_cast<CopyOp>(op)) {
      makesOnHost = copy.getTo() == MemorySpace::Host;
    } else if (auto wait = dyn_cast<WaitOp>(op)) {
      auto copy = wait.getFuture().getDefiningOp<CopyStartOp>();
      makesOnHost = copy && copy.getTo() == MemorySpace::Host;
    } else if (!isa<StartOpInterface>(op) && !onHost.empty()) {
      makesOnHost = llvm::any_of(op.getOperands(), [&](Value operand) {
        return onHost.contains(operand);
      });
      if (makesOnHost && !op.hasTrait<OpTrait::IsTerminator>() &&
          !isa<FreeOp>(op))
        hostOps.insert(&op);
    }
    if (makesOnHost)
      onHost.insert(op.result_begin(), op.result_end());
  }
  // A constant lies where it is read.
  if (!onHost.empty())
    for (auto constant : program.getOps<ConstantOp>())
      if (!constant->use_empty() &&
          llvm::all_of(constant->getUsers(),
                       [&](Operation *user) { return hostOps.contains(user); }))
        onHost.insert(constant.getResult());
}

static InFlightDiagnostic refuse(Operation &op, Value operand,
                                 MemorySpace expected) {
  InFlightDiagnostic diagnostic = op.emitOpError("expects operands on the ")
                                  << stringifyMemorySpace(expected)
                                  << ", found one that lies elsewhere";
  diagnostic.attachNote(operand.getLoc())
      << "this one; an 'fsdp.copy' brings it there";
  return diagnostic;
}

LogicalResult fsdp::verifyMemories(func::FuncOp program) {
  Memories memories(program);
  if (!memories.usesHost())
    return success();
  for (Operation &op : program.getBody().front()) {
    if (isa<ConstantOp, FreeOp>(op))
      continue;
    if (op.hasTrait<OpTrait::IsTerminator>()) {
      for (OpOperand &operand : op.getOpOperands()) {
        StateOp state =
            lookupState(program, program.getResultAttrOfType<FlatSymbolRefAttr>(
                                     operand.getOperandNumber(), kStateAttr));
        MemorySpace expected =
            state && state.isOnHost() ? MemorySpace::Host : MemorySpace::Device;
        if (!isConstant(operand.get()) &&
            memories.get(operand.get()) != expected)
          return refuse(op, operand.get(), expected);
      }
      continue;
    }
    MemorySpace expected =
        memories.isHostOp(&op) ? MemorySpace::Host : MemorySpace::Device;
    if (isa<CollectiveOpInterface, ZeroPaddingOp, ShardOp, SelectRowsOp>(op))
      expected = MemorySpace::Device;
    else if (auto copy = dyn_cast<CopyOp>(op))
      expected = getOther(copy.getTo());
    else if (auto start = dyn_cast<CopyStartOp>(op))
      expected = getOther(start.getTo());
    for (Value operand : op.getOperands())
      if (isa<RankedTensorType>(operand.getType()) && !isConstant(operand) &&
          memories.get(operand) != expected)
        return refuse(op, operand, expected);
    // One that both read would have to be two.
    for (Value operand : op.getOperands())
      if (isConstant(operand) && memories.isHostOp(&op) &&
          !memories.isOnHost(operand) &&
          !operand.getDefiningOp<ConstantOp>().getWrapped())
        return refuse(op, operand, expected);
  }
  return success();
}
