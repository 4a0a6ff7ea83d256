//===- Instructions.cpp - What instructions do to values ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/Instructions.h"

using namespace fsdp;

std::vector<uint32_t> fsdp::valuesOf(const plan::InstructionT &instruction,
                                     bool (*does)(Access)) {
  Operands operands;
  visitBody(instruction, [&](const auto &op) { listOperands(op, operands); });
  std::vector<uint32_t> values;
  for (auto [access, value] : operands)
    if (does(access))
      values.push_back(static_cast<uint32_t>(value));
  return values;
}
