//===- InPlace.cpp - What may be made where an operand lies ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/analysis/InPlace.h"

#include "ir/aten/Aten.h"
#include "ir/aten/Matchers.h"
#include "ir/fsdp/Fsdp.h"

using namespace mlir;
using namespace fsdp;

bool fsdp::canBeInPlace(OpOperand &operand) {
  Operation *op = operand.getOwner();
  if (auto kernel = dyn_cast<KernelOp>(op))
    return kernel.getInPlace()[operand.getOperandNumber()];
  if (aten::isAddedProduct(op))
    return operand.getOperandNumber() == 0 &&
           llvm::count(op->getOperands(), operand.get()) == 1;
  const aten::Schema *schema = aten::lookupSchema(op);
  return schema && schema->is(aten::Flags::Pointwise);
}
