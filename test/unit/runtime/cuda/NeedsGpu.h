//===- NeedsGpu.h - Tests that are skipped without a GPU --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TEST_UNIT_RUNTIME_CUDA_NEEDSGPU_H
#define FSDP_TEST_UNIT_RUNTIME_CUDA_NEEDSGPU_H

#include "runtime/cuda/Streams.h"

#include <gtest/gtest.h>

/// In a test or its SetUp: leaves it where there is no GPU, and says why. A
/// macro, since a skip is a return.
#define FSDP_NEEDS_GPU()                                                       \
  if (const char *reason = nullptr; fsdp::countCudaDevices(&reason) == 0)      \
  GTEST_SKIP() << "needs a GPU: " << reason

#endif // FSDP_TEST_UNIT_RUNTIME_CUDA_NEEDSGPU_H
