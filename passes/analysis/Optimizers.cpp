//===- Optimizers.cpp - What all optimizer ops share ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/analysis/Optimizers.h"

#include "ir/fsdp/Fsdp.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace fsdp;

std::optional<OptimizerUpdate> fsdp::getOptimizerUpdate(Operation *op) {
  return llvm::TypeSwitch<Operation *, std::optional<OptimizerUpdate>>(op)
      .Case<AdamWOp, AdamOp, SgdOp>([](auto update) {
        return OptimizerUpdate{update.getParams(), update.getGrads(),
                               update.getNewParams(), update.getGradScale()};
      })
      .Default([](Operation *) { return std::nullopt; });
}
