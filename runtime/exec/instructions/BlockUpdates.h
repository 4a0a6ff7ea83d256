//===- BlockUpdates.h - Updates of what is stored otherwise -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_EXEC_INSTRUCTIONS_BLOCKUPDATES_H
#define FSDP_RUNTIME_EXEC_INSTRUCTIONS_BLOCKUPDATES_H

#include "runtime/exec/Instruction.h"
#include "runtime/optimize/BlockUpdate.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace fsdp {

/// An update in blocks, or the greatest values of blocks that ranks share.
struct PreparedUpdate {
  UpdateRule rule;
  at::Tensor lr, step, gradScale, foundInf; ///< of one number; or undefined
  /// Those with elements.
  std::vector<UpdatedTensor> tensors;
  /// Of bf16 parameters that are rounded at random.
  std::optional<uint64_t> seed;
  /// The greatest values of the blocks of all tensors. Defined: they are what
  /// is found, and nothing is updated.
  at::Tensor found;
};

/// With the tensors of a program that is being prepared.
PreparedUpdate makePreparedUpdate(const Preparation &p,
                                  const plan::UpdateT &op);
PreparedUpdate makePreparedUpdate(const Preparation &p,
                                  const plan::BlockMaximaT &op);

/// Whether LibTorch's kernels cannot: moments are not stored as the parameters
/// are, parameters are rounded at random, or bits may not depend on the cut.
bool needsBlocks(const Preparation &p, const plan::UpdateT &op);

/// Throws fsdp::Error (RuntimeUnsupported) for a device that has none.
std::unique_ptr<Instruction> prepareBlockUpdate(Preparation &p,
                                                const plan::UpdateT &op);

} // namespace fsdp

#endif // FSDP_RUNTIME_EXEC_INSTRUCTIONS_BLOCKUPDATES_H
