//===- cuda_fp16.h - CUDA's half as LibTorch's ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TEST_UNIT_RUNTIME_CUDA_ON_HOST_CUDA_FP16_H
#define FSDP_TEST_UNIT_RUNTIME_CUDA_ON_HOST_CUDA_FP16_H

#include <c10/util/Half.h>

using __half = c10::Half;

#endif // FSDP_TEST_UNIT_RUNTIME_CUDA_ON_HOST_CUDA_FP16_H
