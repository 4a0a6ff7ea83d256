//===- BlockUpdates.h - Updates of what is stored otherwise -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_EXEC_BLOCKUPDATES_H
#define FSDP_RUNTIME_EXEC_BLOCKUPDATES_H

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

} // namespace fsdp

#endif // FSDP_RUNTIME_EXEC_BLOCKUPDATES_H
