//===- VisibleAttention.h - Attention where a mask shows keys ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// LibTorch's kernel of attention for CPUs multiplies all queries with all keys,
// whatever the mask says of them. Of eight documents in a row that is eight
// times as much as they need. Forms of masks that depend on no data are the
// compiler's (ir/capture/attention); what data says is read in the step.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_EXEC_VISIBLEATTENTION_H
#define FSDP_RUNTIME_EXEC_VISIBLEATTENTION_H

#include "runtime/exec/Instruction.h"

#include <ATen/core/ivalue.h>

#include <memory>
#include <vector>

namespace fsdp {

/// What to run in place of a call of the operator `name` with these arguments:
/// the same kernel, forward or backward, on blocks of queries and the keys that
/// they see in the step. Null: the call itself. Its temporaries are as large as
/// those of the call, its results among them, whatever a step's mask says.
std::unique_ptr<Instruction>
prepareVisibleAttention(const Preparation &p, const plan::CallT &call,
                        const plan::OperatorT &name,
                        const std::vector<c10::IValue> &arguments);

} // namespace fsdp

#endif // FSDP_RUNTIME_EXEC_VISIBLEATTENTION_H
