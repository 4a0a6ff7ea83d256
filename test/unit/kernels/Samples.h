//===- Samples.h - Programs that models have --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// With numbers of f32, or of bf16 that are rounded wherever LibTorch's
// operators round them.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TEST_UNIT_KERNELS_SAMPLES_H
#define FSDP_TEST_UNIT_KERNELS_SAMPLES_H

#include "test/unit/kernels/Programs.h"

#include <string>

namespace fsdp {

struct Sample {
  std::string name;
  plan::KernelProgramT program;
};

/// RMSNorm behind a residual, SwiGLU, cross-entropy, all forward and backward,
/// rotary embedding and AdamW, for about so many rows of about so many columns.
std::vector<Sample> makeSamples(plan::DType dtype, int64_t rows,
                                uint64_t columns);

} // namespace fsdp

#endif // FSDP_TEST_UNIT_KERNELS_SAMPLES_H
