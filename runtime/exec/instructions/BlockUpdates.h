//===- BlockUpdates.h - Updates of what is stored otherwise -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_EXEC_INSTRUCTIONS_BLOCKUPDATES_H
#define FSDP_RUNTIME_EXEC_INSTRUCTIONS_BLOCKUPDATES_H

#include "runtime/exec/Instruction.h"

namespace fsdp {

/// Whether LibTorch's kernels cannot: moments are not stored as the parameters
/// are, parameters are rounded at random, or bits may not depend on the cut.
bool needsBlocks(const Preparation &p, const plan::UpdateT &op);

/// Throws fsdp::Error (RuntimeUnsupported) for a device that has none.
std::unique_ptr<Instruction> prepareBlockUpdate(const Preparation &p,
                                                const plan::UpdateT &op);

} // namespace fsdp

#endif // FSDP_RUNTIME_EXEC_INSTRUCTIONS_BLOCKUPDATES_H
