//===- Resharding.h - What is gathered again for backward -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_ANALYSIS_RESHARDING_H
#define FSDP_PASSES_ANALYSIS_RESHARDING_H

#include "ir/fsdp/Fsdp.h"

namespace fsdp {

/// Over how many adjacent ranks a bucket lies between forward and backward,
/// which gathers it from these again: 1 keeps it whole, 0 stands for all ranks
/// that it is cut over.
int64_t getReshardRanks(BucketsAttr told, llvm::StringRef bucket);

} // namespace fsdp

#endif // FSDP_PASSES_ANALYSIS_RESHARDING_H
