//===- ScratchBound.h - Temporaries of kernels ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_ANALYSIS_SCRATCHBOUND_H
#define FSDP_PASSES_ANALYSIS_SCRATCHBOUND_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace fsdp {

struct ScratchBound {
  int64_t bytes = 0;
  /// Operators that may take more than was counted of them, "aten.convolution",
  /// each once, in the order of their names.
  std::vector<std::string> unknown;
};

/// Bytes that the kernels of `module`'s programs take beside their results at
/// any one moment, from above: the largest temporaries of any op, since a
/// kernel gives them back when it returns, and what libraries hold beside: on
/// a CPU the most that one packs for a product, which it takes from the heap,
/// where it stays, on a GPU their workspaces. An estimate by rule
/// (ScratchBound.cpp, CudaScratch.cpp); what temporaries a machine really
/// needs, the runtime measures. Nothing for other devices.
std::optional<ScratchBound> getScratchBound(mlir::ModuleOp module);

} // namespace fsdp

#endif // FSDP_PASSES_ANALYSIS_SCRATCHBOUND_H
