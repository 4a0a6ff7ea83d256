//===- ModelFlops.h - What a model computes ---------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_ANALYSIS_MODELFLOPS_H
#define FSDP_PASSES_ANALYSIS_MODELFLOPS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace fsdp {

/// Floating-point operations of a captured program's matrix products,
/// convolutions and attention; a multiply-add is two. As PaLM (arXiv
/// 2204.02311, appendix B) counts them: all positions of attention, whatever
/// its mask, and nothing that attention's backward computes again.
double countModelFlops(mlir::func::FuncOp program);

} // namespace fsdp

#endif // FSDP_PASSES_ANALYSIS_MODELFLOPS_H
