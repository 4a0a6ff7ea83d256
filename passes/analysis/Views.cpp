//===- Views.cpp - Which values share storage -----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/analysis/Views.h"

#include "ir/aten/Aten.h"
#include "ir/fsdp/Fsdp.h"

using namespace mlir;
using namespace fsdp;

Views::Views(Block &block) {
  for (Operation &op : block)
    for (OpResult result : op.getResults()) {
      Value source =
          isa<ReplayOp>(op) ? op.getOperand(0) : aten::getViewSource(result);
      if (source)
        roots[result] = getRoot(source);
    }
}
