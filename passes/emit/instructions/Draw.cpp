//===- Draw.cpp - Random numbers of a site --------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/emit/PlanEnums.h"
#include "passes/emit/ProgramEmitter.h"

using namespace mlir;
using namespace fsdp;

LogicalResult fsdp::emit(DrawOp op, ProgramEmitter &emitter) {
  plan::DrawT body;
  body.distribution = toPlan(op.getDistribution());
  body.random = emitter.idOf(op.getRandom());
  body.site = static_cast<uint32_t>(op.getSite());
  llvm::append_range(body.numbers, op.getNumberValues());
  if (std::optional<ArrayRef<int64_t>> range = op.getRange())
    body.range = *range;
  body.given = emitter.idsOf(op.getGiven());
  return emitter.addComputed(std::move(body), op);
}
