//===- Results.cpp - What a program gives back ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/emit/ProgramEmitter.h"

using namespace mlir;
using namespace fsdp;

LogicalResult fsdp::emit(func::ReturnOp op, ProgramEmitter &emitter) {
  func::FuncOp program = emitter.program;
  DenseMap<Attribute, Value> arguments;
  for (BlockArgument argument : program.getArguments())
    if (auto state = program.getArgAttr(argument.getArgNumber(), kStateAttr))
      arguments[state] = argument;
  DenseSet<unsigned> copies(llvm::from_range, emitter.liveness.getCopies());
  for (auto [number, value] : llvm::enumerate(op.getOperands())) {
    auto binding = std::make_unique<plan::BindingT>();
    binding->value = emitter.idOf(value);
    if (auto state = program.getResultAttrOfType<FlatSymbolRefAttr>(
            number, kStateAttr)) {
      binding->state = static_cast<int32_t>(
          emitter.states.getIndex(emitter.states.lookup(state)));
      if (!arguments.contains(state))
        return op.emitOpError("gives state ")
               << state << " a new value, which is no argument of the program";
      if (copies.contains(number)) {
        plan::CopyT copy;
        copy.from = emitter.idOf(value);
        copy.to = emitter.idOf(arguments[state]);
        binding->value = copy.to;
        (void)emitter.add(std::move(copy), value.getLoc());
      }
    } else if (auto name = program.getResultAttrOfType<StringAttr>(
                   number, kOutputAttr)) {
      binding->output = name.str();
    } else if (auto name = program.getResultAttrOfType<StringAttr>(
                   number, kMetricAttr)) {
      binding->metric = name.str();
    } else if (auto names = program.getResultAttrOfType<ArrayAttr>(
                   number, kNormsOfAttr)) {
      for (StringRef name : getTexts(names))
        binding->norms.push_back(name.str());
    } else {
      return op.emitOpError("result ")
             << number << " is bound to neither a state nor an output";
    }
    emitter.result.results.push_back(std::move(binding));
  }
  return success();
}
