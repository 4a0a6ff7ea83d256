//===- CudaSyncs.h - What keeps a program from a CUDA graph -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_ANALYSIS_CUDASYNCS_H
#define FSDP_PASSES_ANALYSIS_CUDASYNCS_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringRef.h"

#include <optional>

namespace fsdp {

/// Compute capability of the GPU that `module` is for, as 10 * major + minor;
/// nothing for another device.
std::optional<int> getCudaCapability(mlir::ModuleOp module);

/// Why the host waits for the GPU while LibTorch's CUDA kernel for `op` runs on
/// one of this capability: no CUDA graph can hold such a call. Empty where
/// nothing in the kernel's sources says that it does, and for ops of other
/// dialects.
llvm::StringRef getCudaSync(mlir::Operation *op, int capability);

/// Whether the operator called `name`, "aten.index.Tensor", has a condition
/// under which it does.
bool hasCudaSyncRule(llvm::StringRef name);

} // namespace fsdp

#endif // FSDP_PASSES_ANALYSIS_CUDASYNCS_H
