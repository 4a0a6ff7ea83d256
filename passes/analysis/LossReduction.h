//===- LossReduction.h - How a loss is reduced ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_ANALYSIS_LOSSREDUCTION_H
#define FSDP_PASSES_ANALYSIS_LOSSREDUCTION_H

#include <cstdint>

namespace fsdp {

/// LibTorch's numbers (at::Reduction).
enum LossReduction : int64_t {
  NoReduction = 0,
  MeanReduction = 1,
  SumReduction = 2
};

} // namespace fsdp

#endif // FSDP_PASSES_ANALYSIS_LOSSREDUCTION_H
