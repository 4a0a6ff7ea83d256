//===- CudaScratch.h - Temporaries of CUDA kernels --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_ANALYSIS_CUDASCRATCH_H
#define FSDP_PASSES_ANALYSIS_CUDASCRATCH_H

#include "mlir/IR/Operation.h"

#include <cstdint>

namespace fsdp {

/// The GPU, and how it is used.
struct CudaUse {
  int capability;       ///< 10 * major + minor
  bool isDeterministic; ///< `#fsdp.arithmetic`
};

/// What a kernel takes beside its results.
struct KernelScratch {
  int64_t bytes = 0;     ///< of what is known
  bool isBounded = true; ///< there is nothing else
};

/// Of LibTorch's CUDA kernels for `op`; nothing for ops of other dialects,
/// which work in place or in the communicator's buffers.
KernelScratch getCudaScratch(mlir::Operation *op, const CudaUse &use);

/// Whether the operator called `name`, "aten.index.Tensor", has a rule.
bool hasCudaScratchRule(llvm::StringRef name);

/// Bytes, at most, that cuBLAS and cuBLASLt work in on a rank's stream, for
/// ever (runtime/cuda/Workspaces.h).
int64_t getCudaWorkspaces(const CudaUse &use);

} // namespace fsdp

#endif // FSDP_PASSES_ANALYSIS_CUDASCRATCH_H
