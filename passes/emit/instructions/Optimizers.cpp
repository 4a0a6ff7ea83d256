//===- Optimizers.cpp - Updates of parameters -----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/analysis/Transfers.h"
#include "passes/emit/ProgramEmitter.h"

using namespace mlir;
using namespace fsdp;

/// Of the parameters that are updated, which may be copies of them.
static std::vector<uint32_t> statesOf(ValueRange params,
                                      ProgramEmitter &emitter) {
  const StateTable &states = emitter.states;
  std::vector<uint32_t> numbers;
  for (Value param : params)
    if (BlockArgument argument = getUpdatedArgument(param))
      numbers.push_back(static_cast<uint32_t>(states.getIndex(
          states.lookup(emitter.program, argument.getArgNumber()))));
  return numbers;
}

/// The operands that an update and its maxima share.
template <typename Body, typename Op>
static void setTensors(Body &body, Op op, ProgramEmitter &emitter) {
  OptimizerNumbers numbers;
  readNumbers(op.getNumbers(), numbers);
  body.kind = static_cast<uint8_t>(op.getKind());
  body.numbers = getFacts(op.getKind()).toList(numbers);
  body.params = emitter.idsOf(op.getParams());
  body.grads = emitter.idsOf(op.getGrads());
  body.moments = emitter.idsOf(op.getMoments());
  body.scales = emitter.idsOf(op.getScales());
  body.grad_scale = emitter.optionalIdOf(op.getGradScale());
}

LogicalResult fsdp::emit(UpdateOp op, ProgramEmitter &emitter) {
  if (!op.getRates().empty())
    return op.emitOpError("with rates is an operator of kernels, and in none");
  plan::UpdateT update;
  setTensors(update, op, emitter);
  update.lr = emitter.idOf(op.getLr());
  update.step = emitter.optionalIdOf(op.getStep());
  update.found_inf = emitter.optionalIdOf(op.getFoundInf());
  update.maxima = emitter.optionalIdOf(op.getMaxima());
  update.rounding = op.getRounding().has_value();
  update.rounding_seed = op.getRounding().value_or(0);
  if (update.maxima != -1 || update.rounding)
    update.of = statesOf(op.getParams(), emitter);
  return emitter.add(std::move(update), op.getLoc());
}

LogicalResult fsdp::emit(BlockMaximaOp op, ProgramEmitter &emitter) {
  plan::BlockMaximaT maxima;
  setTensors(maxima, op, emitter);
  maxima.of = statesOf(op.getParams(), emitter);
  return emitter.addComputed(std::move(maxima), op);
}
