//===- ProgramNumbers.h - What programs of kernels compute ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Asked of a GPU, and of a machine that runs its text without one.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TEST_UNIT_RUNTIME_CUDA_PROGRAMNUMBERS_H
#define FSDP_TEST_UNIT_RUNTIME_CUDA_PROGRAMNUMBERS_H

#include "runtime/kernels/GpuKernels.h"
#include "test/unit/runtime/cuda/KernelNumbers.h"

#include <cstdint>
#include <vector>

namespace fsdp::test {

/// Small programs of all that models have, in f32 and bf16, and random ones;
/// sums over rows in f32, bf16 and halves; no rows at all.
std::vector<plan::KernelProgramT> makeLaunchedPrograms(int64_t rows,
                                                       uint64_t columns);

/// Launched where `memory` is, the program gives the interpreter's numbers, bit
/// for bit where nothing in it is approximate. Operands begin at multiples of
/// 16, and then 8 bytes behind them.
void expectTheInterpretersNumbers(KernelMemory &memory, GpuKernels &kernels,
                                  const plan::KernelProgramT &program);

} // namespace fsdp::test

#endif // FSDP_TEST_UNIT_RUNTIME_CUDA_PROGRAMNUMBERS_H
