//===- Programs.cpp - Functions of a module -------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/analysis/Programs.h"

using namespace mlir;
using namespace fsdp;

bool fsdp::isReference(func::FuncOp func) {
  return getProgram(func).getReference();
}

bool fsdp::isInference(func::FuncOp func) {
  return getProgram(func).getKind() != ProgramKind::Train;
}

bool fsdp::isValidation(func::FuncOp func) {
  return getProgram(func).getKind() == ProgramKind::Eval;
}

SmallVector<func::FuncOp> fsdp::getPrograms(ModuleOp module) {
  SmallVector<func::FuncOp> programs;
  for (auto func : module.getOps<func::FuncOp>())
    if (!func.isExternal() && !isReference(func))
      programs.push_back(func);
  return programs;
}
