//===- ScratchBound.h - Temporaries of kernels ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_ANALYSIS_SCRATCHBOUND_H
#define FSDP_PASSES_ANALYSIS_SCRATCHBOUND_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <cstdint>
#include <optional>

namespace fsdp {

/// Bytes of tensors that the kernels of `module`'s programs allocate beside
/// their results at any one moment, from above: the largest over all ops, since
/// a kernel gives its temporaries back when it returns. An estimate by rule
/// (ScratchBound.cpp); what a machine and its number of threads really need,
/// the runtime measures. Nothing for a device whose kernels have no rules.
std::optional<int64_t> getScratchBound(mlir::ModuleOp module);

} // namespace fsdp

#endif // FSDP_PASSES_ANALYSIS_SCRATCHBOUND_H
