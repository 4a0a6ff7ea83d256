//===- Outputs.h - Names of buckets and outputs -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_ANALYSIS_OUTPUTS_H
#define FSDP_PASSES_ANALYSIS_OUTPUTS_H

#include "llvm/ADT/StringRef.h"

namespace fsdp {

/// Name of the bucket of what no wrapped module holds.
inline constexpr llvm::StringLiteral kRootBucket = "root";
/// Name of the bucket of loss and gradient norm.
inline constexpr llvm::StringLiteral kMetricsBucket = "metrics";
/// Name of the bucket of norms by parameter or module, which come after those.
inline constexpr llvm::StringLiteral kNormsBucket = "norms";
/// Of the greatest values of the optimizer's blocks that ranks share.
inline constexpr llvm::StringLiteral kMaximaBucket = "optimizer/maxima";
/// Name of the output that is the gradients' norm.
inline constexpr llvm::StringLiteral kGradNormOutput = "grad_norm";
/// Name of the metric that is what the loss is multiplied by.
inline constexpr llvm::StringLiteral kLossScaleMetric = "loss_scale";

} // namespace fsdp

#endif // FSDP_PASSES_ANALYSIS_OUTPUTS_H
