//===- Kernel.cpp - Operators as one kernel -------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/emit/ProgramEmitter.h"
#include "passes/kernels/Program.h"
#include "plan/Kernels.h"

using namespace mlir;
using namespace fsdp;

/// That what lies in the place of an input may do so.
static LogicalResult verifyPlaces(KernelOp op,
                                  const plan::KernelProgramT &program,
                                  const plan::KernelT &body,
                                  const ProgramEmitter &emitter) {
  auto placeOf = [&](uint32_t id) -> const plan::ValueT & {
    const plan::ValueT &value = *emitter.result.values[id];
    return value.place == plan::Place::view ? *emitter.result.values[value.base]
                                            : value;
  };
  for (auto [to, output] :
       llvm::zip_equal(operandsOf(program, /*written=*/true), body.outputs))
    for (auto [from, input] :
         llvm::zip_equal(operandsOf(program, /*written=*/false), body.inputs)) {
      const plan::ValueT &a = placeOf(output), &b = placeOf(input);
      bool isApart = b.place == plan::Place::literal || a.memory != b.memory ||
                     a.offset + a.bytes <= b.offset ||
                     b.offset + b.bytes <= a.offset;
      if (!isApart && !mayOverwrite(program, to, from))
        return op.emitOpError("leaves result ")
               << to << " in the place of an operand that it reads otherwise";
    }
  return success();
}

LogicalResult fsdp::emit(KernelOp op, ProgramEmitter &emitter) {
  SmallVector<Operation *> ops;
  for (Operation &each : op.getBlock().without_terminator())
    ops.push_back(&each);
  SmallVector<Value> results(op.getYielded());
  std::string why;
  std::optional<KernelOfOps> kernel = buildKernel(ops, results, &why);
  if (!kernel)
    return op.emitOpError("holds operators that are no kernel: ") << why;
  kernel->program.name = nameKernel(ops);
  plan::KernelT body;
  for (Value input : kernel->inputs)
    body.inputs.push_back(emitter.idOf(
        op.getInputs()[cast<BlockArgument>(input).getArgNumber()]));
  for (OpResult result : op.getResults()) {
    if (failed(emitter.makeResult(result)))
      return failure();
    body.outputs.push_back(emitter.idOf(result));
  }
  if (failed(verifyPlaces(op, kernel->program, body, emitter)))
    return failure();
  body.program = emitter.context.getKernel(std::move(kernel->program));
  return emitter.add(std::move(body), op.getLoc());
}
