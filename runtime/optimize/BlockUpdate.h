//===- BlockUpdate.h - Optimizers in blocks ---------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// All optimizers, in float32, for states and parameters that
// are stored as something else: moments in bfloat16 or as codes
// (support/BlockCodes.h), parameters that are rounded at random. The arithmetic
// is that of LibTorch's fused kernels; each block is computed from what is
// stored and stored again before the next one.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_OPTIMIZE_BLOCKUPDATE_H
#define FSDP_RUNTIME_OPTIMIZE_BLOCKUPDATE_H

#include "runtime/optimize/Blocks.h"
#include "runtime/optimize/UpdateRules.h"

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

namespace fsdp {

/// A parameter and what is kept of it, all contiguous and of one number of
/// elements but for the scales.
struct UpdatedTensor {
  at::Tensor param, grad;
  std::vector<at::Tensor> moments; ///< none, one or two
  std::vector<at::Tensor> scales;  ///< one for each moment, or none
  /// New greatest values of the blocks, one tensor for each scale, where ranks
  /// share blocks, which are then the model's tensor's; else none.
  std::vector<at::Tensor> maxima;
  /// Where blocks are shared, and of what is rounded at random.
  std::vector<ElementRun> runs;
  /// On the host (`cut`).
  std::vector<BlockPiece> pieces;

  void cut() {
    pieces = maxima.empty() ? cutEvenly(param.numel()) : cutByWhole(runs);
  }
};

/// Updates it in place, on the host. `seed`: bf16 parameters are rounded at
/// random.
void update(const UpdateRule &rule, const UpdateNumbers &numbers,
            const UpdatedTensor &tensor, std::optional<uint64_t> seed);

/// Sets `maxima` to the greatest absolute values that the tensor's pieces will
/// have in each of its blocks; changes nothing else.
void findMaxima(const UpdateRule &rule, const UpdateNumbers &numbers,
                const UpdatedTensor &tensor);

} // namespace fsdp

#endif // FSDP_RUNTIME_OPTIMIZE_BLOCKUPDATE_H
