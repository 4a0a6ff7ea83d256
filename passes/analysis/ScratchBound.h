//===- ScratchBound.h - Temporaries of kernels ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_ANALYSIS_SCRATCHBOUND_H
#define FSDP_PASSES_ANALYSIS_SCRATCHBOUND_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <cstdint>
#include <optional>

namespace fsdp {

/// Bytes that the kernels of `module`'s programs take beside their results at
/// any one moment, from above: the largest temporaries of any op, since a
/// kernel gives them back when it returns, and the most that a library packs
/// for a product, which it takes from the heap, where it stays. An estimate by
/// rule (ScratchBound.cpp); what temporaries a machine and its number of
/// threads really need, the runtime measures. Nothing for a device whose
/// kernels have no rules.
std::optional<int64_t> getScratchBound(mlir::ModuleOp module);

} // namespace fsdp

#endif // FSDP_PASSES_ANALYSIS_SCRATCHBOUND_H
