//===- cuda_bf16.h - CUDA's bfloat16 as LibTorch's --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TEST_UNIT_RUNTIME_CUDA_ON_HOST_CUDA_BF16_H
#define FSDP_TEST_UNIT_RUNTIME_CUDA_ON_HOST_CUDA_BF16_H

#include <c10/util/BFloat16.h>

using __nv_bfloat16 = c10::BFloat16;

#endif // FSDP_TEST_UNIT_RUNTIME_CUDA_ON_HOST_CUDA_BF16_H
