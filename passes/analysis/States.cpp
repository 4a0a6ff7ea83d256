//===- States.cpp - The states of a module --------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/analysis/States.h"

using namespace mlir;
using namespace fsdp;

StateTable::StateTable(ModuleOp module) {
  for (StateOp state : module.getOps<StateOp>()) {
    byName[state.getSymNameAttr()] = state;
    index[state] = states.size();
    states.push_back(state);
  }
  for (StateOp state : states)
    if (PartAttr part = state.getPart())
      if (StateOp flat = lookup(part.getFlat()))
        members[flat].push_back(state);
}

ArrayRef<StateOp> StateTable::getMembers(StateOp flat) const {
  auto it = members.find(flat);
  return it == members.end() ? ArrayRef<StateOp>() : it->second;
}

StateOp StateTable::lookup(StringAttr name) const {
  return byName.lookup(name);
}

SmallVector<BlockArgument> fsdp::addStateArguments(func::FuncOp func,
                                                   ArrayRef<StateOp> states) {
  unsigned at = 0;
  while (at < func.getNumArguments() && func.getArgAttr(at, kStateAttr))
    ++at;
  SmallVector<DictionaryAttr> attributes;
  func.getAllArgAttrs(attributes);
  Builder builder(func.getContext());
  Block &body = func.getBody().front();
  SmallVector<BlockArgument> arguments;
  SmallVector<DictionaryAttr> added;
  for (auto [i, each] : llvm::enumerate(states)) {
    StateOp state = each;
    added.push_back(builder.getDictionaryAttr(builder.getNamedAttr(
        kStateAttr, FlatSymbolRefAttr::get(state.getSymNameAttr()))));
    arguments.push_back(body.insertArgument(
        unsigned(at + i), state.getLocalType(), state.getLoc()));
  }
  attributes.insert(attributes.begin() + at, added.begin(), added.end());
  func.setFunctionType(
      builder.getFunctionType(body.getArgumentTypes(), func.getResultTypes()));
  func.setAllArgAttrs(attributes);
  return arguments;
}

llvm::DenseSet<Value> fsdp::getKept(func::FuncOp func,
                                    const StateTable &states) {
  llvm::DenseSet<Value> kept;
  Operation *terminator = func.getBody().front().getTerminator();
  for (auto [i, value] : llvm::enumerate(terminator->getOperands()))
    if (StateOp state = states.lookup(
            func.getResultAttrOfType<FlatSymbolRefAttr>(i, kStateAttr));
        state && state.getRole() == Role::Gathered)
      kept.insert(value);
  return kept;
}
