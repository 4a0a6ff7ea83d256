//===- PeakLimit.cpp - What kernels may not raise -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/kernels/PeakLimit.h"

#include "passes/analysis/Alignment.h"
#include "passes/analysis/LiveBytes.h"
#include "passes/plan/Placement.h"

using namespace mlir;
using namespace fsdp;

HighestPoint fsdp::findHighest(func::FuncOp program) {
  auto measure = [&] {
    LivePoint point = getPeak(getLiveCurve(Liveness(program), alignUp));
    return HighestPoint{point.use.total(), point.time};
  };
  HighestPoint apart = measure();
  program->setAttr(kReuseAttr, UnitAttr::get(program.getContext()));
  HighestPoint reused = measure();
  program->removeAttr(kReuseAttr);
  return reused.bytes < apart.bytes ? reused : apart;
}

size_t fsdp::findNearest(func::FuncOp program, ArrayRef<Operation *> ops,
                         int64_t time) {
  DenseMap<Operation *, int64_t> positions;
  for (Operation &op : program.getBody().front())
    positions[&op] = static_cast<int64_t>(positions.size());
  auto distance = [&](Operation *op) {
    return std::abs(positions.lookup(op) - time);
  };
  return llvm::min_element(ops,
                           [&](Operation *a, Operation *b) {
                             return distance(a) < distance(b);
                           }) -
         ops.begin();
}

bool PeakLimit::holds(func::FuncOp program) {
  constexpr int64_t kClose = 32; // gaps between addresses are a smaller part
  if (findHighest(program).bytes < most - most / kClose)
    return true;
  OwningOpRef<func::FuncOp> now = program.clone();
  // Mostly what packs at once is low enough; searches take seconds.
  PackingLimits atOnce{.searchWork = 0};
  int64_t bytes = placeTransients(*now, atOnce)[0].packing.bytes;
  if (bytes <= most)
    return true;
  if (!placed)
    placed = placeTransients(*original)[0].packing.bytes;
  return bytes <= *placed ||
         placeTransients(*now, {.enough = *placed})[0].packing.bytes <= *placed;
}

void PeakLimit::restore(func::FuncOp program) {
  OwningOpRef<func::FuncOp> copy = original->clone();
  program.getBody().takeBody(copy->getBody());
}
