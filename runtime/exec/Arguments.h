//===- Arguments.h - From a plan's arguments to LibTorch's ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_EXEC_ARGUMENTS_H
#define FSDP_RUNTIME_EXEC_ARGUMENTS_H

#include "runtime/exec/Instruction.h"

#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>

#include <vector>

namespace fsdp {

/// The stack that `call` passes to an operator of `schema`. Throws fsdp::Error
/// (ArtifactCorrupted) if an argument does not fit.
std::vector<c10::IValue> makeArguments(const Preparation &preparation,
                                       const plan::CallT &call,
                                       const c10::FunctionSchema &schema);

} // namespace fsdp

#endif // FSDP_RUNTIME_EXEC_ARGUMENTS_H
