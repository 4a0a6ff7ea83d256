//===- KernelRuns.cpp - What a plan's kernels do to memory ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "test/fuzz/KernelRuns.h"

#include "kernels/Interpreter.h"
#include "plan/DType.h"
#include "plan/Kernels.h"

#include <memory>

using namespace fsdp;
using plan::KernelProgramT;

/// What a run may take, so that a second is some thousands of them.
static constexpr uint64_t kMostElements = 1 << 14, kMostBytes = 1 << 20;

static bool isSmall(const KernelProgramT &program) {
  auto rows = static_cast<uint64_t>(rowsOf(program));
  uint64_t columns = columnsOf(program);
  return rows <= kMostElements && columns <= kMostElements &&
         rows * columns * program.ops.size() <= kMostElements &&
         interpretedBytes(program) <= kMostBytes;
}

static uint64_t bytesOf(const KernelProgramT &program, size_t operand) {
  return extentOf(program, operand) *
         (takesRowSum(program, operand)
              ? sizeof(float)
              : dtypeBytes(program.operands[operand]->dtype));
}

static void run(const KernelProgramT &program) {
  if (!isSmall(program))
    return;
  std::vector<std::unique_ptr<char[]>> memory;
  std::vector<void *> addresses;
  for (size_t i = 0; i < program.operands.size(); ++i) {
    uint64_t bytes = bytesOf(program, i);
    if (bytes > kMostBytes)
      return;
    memory.push_back(std::make_unique<char[]>(bytes));
    addresses.push_back(memory.back().get());
  }
  interpret(program, addresses, 0,
            isFlat(program) ? static_cast<int64_t>(columnsOf(program))
                            : rowsOf(program));
}

void test::runKernels(const plan::PlanT &plan) {
  for (const auto &program : plan.kernels)
    run(*program);
}
