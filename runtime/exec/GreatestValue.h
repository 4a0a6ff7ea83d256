//===- GreatestValue.h - The greatest absolute value ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_EXEC_GREATESTVALUE_H
#define FSDP_RUNTIME_EXEC_GREATESTVALUE_H

#include "runtime/exec/Instruction.h"

#include <ATen/core/ivalue.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace fsdp {

/// Of |values|, as torch.linalg.vector_norm(values, inf): a NaN if there is
/// one, 0 of none.
float findGreatest(std::span<const float> values);

/// What to run in place of a call of the operator `name` with these arguments;
/// null: itself. LibTorch 2.11's kernel of the norm of order inf
/// over all of a tensor takes 20 times as long as one pass over memory, and
/// scales of eight bits ask for it of each tensor.
std::unique_ptr<Instruction>
prepareGreatest(const Preparation &p, const plan::CallT &call,
                const plan::OperatorT &name,
                const std::vector<c10::IValue> &arguments);

} // namespace fsdp

#endif // FSDP_RUNTIME_EXEC_GREATESTVALUE_H
