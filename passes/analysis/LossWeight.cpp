//===- LossWeight.cpp - Programs whose loss is weighed --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/analysis/LossWeight.h"

#include "ir/fsdp/Fsdp.h"
#include "support/LossWeight.h"

using namespace mlir;
using namespace fsdp;

std::optional<unsigned> fsdp::findLossWeight(func::FuncOp program) {
  for (unsigned i = 0; i < program.getNumResults(); ++i)
    for (StringRef attr : {StringRef(kOutputAttr), StringRef(kMetricAttr)})
      if (auto name = program.getResultAttrOfType<StringAttr>(i, attr);
          name && name == kLossWeight)
        return i;
  return std::nullopt;
}
