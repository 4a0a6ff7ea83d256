//===- KernelSums.h - Sums over rows that kernels make ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_ANALYSIS_KERNELSUMS_H
#define FSDP_PASSES_ANALYSIS_KERNELSUMS_H

#include "mlir/IR/Operation.h"

#include <cstdint>

namespace fsdp {

/// Bytes that an `fsdp.kernel` works in beside its results: rows of partial
/// sums, `rows` of them at most; 0 of other ops.
int64_t getKernelScratch(mlir::Operation *op, int64_t rows);

} // namespace fsdp

#endif // FSDP_PASSES_ANALYSIS_KERNELSUMS_H
