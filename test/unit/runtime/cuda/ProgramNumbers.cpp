//===- ProgramNumbers.cpp - What programs of kernels compute --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "test/unit/runtime/cuda/ProgramNumbers.h"

#include "plan/DType.h"
#include "plan/Kernels.h"
#include "test/unit/kernels/Nearly.h"
#include "test/unit/kernels/Programs.h"
#include "test/unit/kernels/Samples.h"

#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <string>

using namespace fsdp;
using namespace fsdp::test;
using plan::DType;

/// Of products, so that each element counts.
static plan::KernelProgramT makeRowSum(DType dtype, int64_t rows,
                                       uint64_t columns) {
  ProgramBuilder builder({rows});
  uint32_t x = builder.load(DType::f32, columns),
           y = builder.load(dtype, columns);
  builder.storeSum(builder.op(KernelOpKind::mul, {x, y}), dtype);
  builder.store(DType::f32, x);
  builder.program.name = "sum of products";
  return std::move(builder.program);
}

std::vector<plan::KernelProgramT>
fsdp::test::makeLaunchedPrograms(int64_t rows, uint64_t columns) {
  std::vector<plan::KernelProgramT> programs;
  for (DType dtype : {DType::f32, DType::bf16})
    for (Sample &sample : makeSamples(dtype, rows, columns)) {
      sample.program.name = sample.name;
      programs.push_back(std::move(sample.program));
    }
  for (DType dtype : {DType::f32, DType::bf16, DType::f16})
    programs.push_back(makeRowSum(dtype, rows, columns));
  programs.push_back(makeRowSum(DType::bf16, 0, columns));
  constexpr uint64_t kSeeds = 40;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    std::mt19937_64 random(seed);
    plan::KernelProgramT program = makeRandomProgram(random);
    program.name = "by chance, " + std::to_string(seed);
    if (!checkKernel(program) && !isApproximateOnGpus(program) &&
        rowsOf(program) * int64_t(columnsOf(program)) < rows * int64_t(columns))
      programs.push_back(std::move(program));
  }
  return programs;
}

static void expectNumbers(KernelMemory &memory, GpuKernels &kernels,
                          const plan::KernelProgramT &program,
                          const NearNumbers &numbers, uint64_t skew) {
  SCOPED_TRACE(std::to_string(skew) + " bytes behind multiples of 16");
  memory.clear();
  std::vector<void *> operands;
  for (const std::vector<char> &given : numbers.given()) {
    char *at = memory.make(given.size(), skew);
    memory.write(at, given.data(), given.size());
    operands.push_back(at);
  }
  GpuKernelCall call(kernels.load(program), program, operands);
  char *scratch = nullptr;
  if (call.scratchBytes() > 0) {
    // Of NaNs: each place is to be written before it is read.
    std::vector<char> nans(call.scratchBytes(), '\xff');
    scratch = memory.make(nans.size());
    memory.write(scratch, nans.data(), nans.size());
  }
  call.run(scratch, memory.onStream());
  for (size_t i = 0; i < operands.size(); ++i) {
    std::vector<char> found(numbers.given()[i].size());
    memory.read(found.data(), static_cast<char *>(operands[i]), found.size());
    std::optional<std::string> problem = isApproximateOnGpus(program)
                                             ? numbers.compare(i, found)
                                             : numbers.compareExactly(i, found);
    EXPECT_EQ(problem, std::nullopt);
  }
}

void fsdp::test::expectTheInterpretersNumbers(
    KernelMemory &memory, GpuKernels &kernels,
    const plan::KernelProgramT &program) {
  SCOPED_TRACE(program.name + "\n" + toText(program));
  NearNumbers numbers(program);
  for (uint64_t skew : {0, 8})
    expectNumbers(memory, kernels, program, numbers, skew);
}
