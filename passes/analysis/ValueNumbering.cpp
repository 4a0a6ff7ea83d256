//===- ValueNumbering.cpp - Equal computations get equal numbers ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/analysis/ValueNumbering.h"

#include "ir/aten/Aten.h"
#include "passes/analysis/Optimizers.h"
#include "passes/analysis/Programs.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace fsdp;

// First words of keys, so that arguments and ops never share one.
enum : uintptr_t { kArgument = 1, kAnonymousArgument = 2, kOp = 3 };

ValueNumbering::Number ValueNumbering::intern(Key key, unsigned size,
                                              Operation *op) {
  auto it = table.find(key);
  if (it != table.end())
    return it->second;
  Number first = next;
  table[key.copy(allocator)] = first;
  if (op)
    for (unsigned i = 0; i < size; ++i)
      ops[first + i] = op;
  next += size;
  return first;
}

bool ValueNumbering::passThrough(Operation &op) {
  if (isStart(&op))
    return true; // The wait looks its members up.
  if (isa<WaitOp>(op)) {
    for (OpResult result : op.getResults())
      numbers[result] = numbers.lookup(getTransferred(result));
    return true;
  }
  if (isa<AllGatherOp, ReduceScatterOp, AllReduceOp, ShardOp, ReplayOp>(op)) {
    numbers[op.getResult(0)] = numbers.lookup(op.getOperand(0));
    return true;
  }
  return false;
}

void ValueNumbering::numberOp(Operation &op) {
  if (passThrough(op))
    return;
  SmallVector<uintptr_t> key{
      kOp, uintptr_t(op.getName().getAsOpaquePointer()),
      uintptr_t(op.getPropertiesAsAttribute().getAsOpaquePointer())};
  for (Value operand : op.getOperands())
    key.push_back(numbers.lookup(operand));
  Number first = intern(key, op.getNumResults(), &op);
  for (OpResult result : op.getResults())
    numbers[result] = first + result.getResultNumber();
  // A cast of a number to f32 may be one that only the metrics read.
  if (op.getName().getStringRef() == "aten._to_copy" &&
      op.getResult(0).getType() ==
          RankedTensorType::get({}, Float32Type::get(op.getContext())))
    metricOperands[first] = numbers.lookup(op.getOperand(0));
}

bool ValueNumbering::isMetricOf(Number number, Number other) const {
  auto it = metricOperands.find(number);
  return it != metricOperands.end() && it->second == other;
}

Operation *ValueNumbering::findFirstUnknown(Number number, Number known) const {
  // Numbers are given in the order of the block.
  Number first = number;
  llvm::DenseSet<Number> seen;
  SmallVector<Number> worklist{number};
  while (!worklist.empty()) {
    Number current = worklist.pop_back_val();
    if (current < known || !seen.insert(current).second)
      continue;
    first = std::min(first, current);
    if (Operation *op = getOp(current))
      for (Value operand : op->getOperands())
        worklist.push_back(numbers.lookup(operand));
  }
  return first < known ? nullptr : getOp(first);
}

SmallVector<ValueNumbering::Observation>
ValueNumbering::run(func::FuncOp func) {
  numbers.clear();
  StateTable states(func->getParentOfType<ModuleOp>());
  for (BlockArgument argument : func.getArguments()) {
    unsigned i = argument.getArgNumber();
    Attribute name = func.getArgAttr(i, kStateAttr);
    if (!name)
      name = func.getArgAttr(i, kInputAttr);
    uintptr_t key[] = {name ? kArgument : kAnonymousArgument,
                       name ? uintptr_t(name.getAsOpaquePointer()) : i};
    numbers[argument] = intern(key, 1, nullptr);
  }

  SmallVector<Observation> observed;
  auto observe = [&](StringRef what, StringRef name, Value value,
                     Location loc) {
    observed.push_back({llvm::formatv("{0} '{1}'", what, name).str(),
                        numbers.lookup(value), loc});
  };
  auto observeGradient = [&](Attribute of, Value value, Location loc) {
    if (auto name = dyn_cast_or_null<FlatSymbolRefAttr>(of))
      observe("gradient of", name.getValue(), value, loc);
  };

  Block &body = func.getBody().front();
  for (Operation &op : body.without_terminator()) {
    if (auto reduce = dyn_cast<ReduceScatterOp>(op))
      observeGradient(reduce.getOfAttr(), reduce.getFull(), op.getLoc());
    else if (auto reduce = dyn_cast<AllReduceOp>(op))
      observeGradient(reduce.getOfAttr(), reduce.getInput(), op.getLoc());
    else if (isa<ReduceScatterStartOp, AllReduceStartOp>(op)) {
      if (auto of = op.getAttrOfType<ArrayAttr>("of"))
        for (auto [name, value] : llvm::zip(of, op.getOperands()))
          observeGradient(name, value, op.getLoc());
    } else if (std::optional<OptimizerUpdate> update = getOptimizerUpdate(&op))
      for (auto [param, grad] : llvm::zip(update->params, update->grads))
        if (auto argument = dyn_cast<BlockArgument>(param))
          observeGradient(func.getArgAttr(argument.getArgNumber(), kStateAttr),
                          grad, op.getLoc());
    numberOp(op);
  }

  Operation *terminator = body.getTerminator();
  for (auto [i, value] : llvm::enumerate(terminator->getOperands())) {
    Location loc = value.getLoc();
    observeGradient(func.getResultAttr(i, kGradientAttr), value, loc);
    if (auto name = func.getResultAttrOfType<StringAttr>(i, kOutputAttr)) {
      if (name.getValue() != kGradNormOutput)
        observe("output", name.getValue(), value, loc);
      continue;
    }
    if (auto name = func.getResultAttrOfType<StringAttr>(i, kMetricAttr)) {
      observe("output", name.getValue(), value, loc);
      observed.back().isMetric = true;
      continue;
    }
    StateOp state = states.lookup(
        func.getResultAttrOfType<FlatSymbolRefAttr>(i, kStateAttr));
    if (state &&
        (state.getRole() == Role::Buffer || state.getRole() == Role::Random))
      observe("new value of", state.getSymName(), value, loc);
  }
  return observed;
}
