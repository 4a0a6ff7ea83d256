//===- Free.cpp - The end of lifetimes ------------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/exec/Instruction.h"

using namespace fsdp;

/// Addresses are the plan's: there is nothing to give back.
std::unique_ptr<Instruction> fsdp::prepare(Preparation &, const plan::FreeT &) {
  return nullptr;
}
