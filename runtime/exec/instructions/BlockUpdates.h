//===- BlockUpdates.h - Updates of what is stored otherwise -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_EXEC_INSTRUCTIONS_BLOCKUPDATES_H
#define FSDP_RUNTIME_EXEC_INSTRUCTIONS_BLOCKUPDATES_H

#include "runtime/exec/Instruction.h"
#include "runtime/optimize/BlockUpdate.h"

namespace fsdp {

/// What an Adam or Sgd of the plan says, by one name.
struct BlockUpdateOperands {
  UpdateRule rule;
  std::vector<uint32_t> params, grads, moments, scales, of;
  int32_t maxima = -1, step = -1, lr = -1, gradScale = -1, foundInf = -1;
  std::optional<uint64_t> roundingSeed;
};

/// Whether LibTorch's kernels cannot: moments are not stored as the parameters
/// are, parameters are rounded at random, or bits may not depend on the cut.
bool needsBlocks(const Preparation &p, const BlockUpdateOperands &operands);

/// Throws fsdp::Error (RuntimeUnsupported) for operands that are not on the
/// CPU.
std::unique_ptr<Instruction>
prepareBlockUpdate(const Preparation &p, const BlockUpdateOperands &operands);

} // namespace fsdp

#endif // FSDP_RUNTIME_EXEC_INSTRUCTIONS_BLOCKUPDATES_H
