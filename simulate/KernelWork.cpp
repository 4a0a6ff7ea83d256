//===- KernelWork.cpp - What kernels of our own compute -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "simulate/KernelWork.h"

#include "plan/Kernels.h"

#include <algorithm>

using namespace fsdp;

/// For one element, about: where it is more than one, by the text that
/// kernels/emit makes for GPUs.
static double instructionsOf(KernelOpKind kind) {
  switch (kind) {
  case KernelOpKind::exp:
    return 10;
  case KernelOpKind::log:
    return 20;
  case KernelOpKind::tanh:
  case KernelOpKind::erf:
    return 30;
  case KernelOpKind::div:
    return 3;
  case KernelOpKind::sqrt:
    return 8;
  default:
    return 1;
  }
}

void fsdp::addKernel(const plan::KernelProgramT &program, bool onGpu,
                     Work &work) {
  double rows = double(rowsOf(program));
  std::vector<KernelValue> values = valuesOf(program);
  for (size_t i = 0; i < values.size(); ++i)
    work.flops += rows * double(values[i].columns) *
                  (onGpu ? instructionsOf(kindOf(*program.ops[i])) : 1);
  if (!onGpu)
    return;
  // Blocks' rows of partial sums are written, and added up by another kernel.
  for (size_t i = 0; i < program.operands.size(); ++i)
    if (takesRowSum(program, i)) {
      work.kernels += 1;
      work.bytes += 2 * sizeof(float) * double(program.operands[i]->columns) *
                    std::min(rows, double(kMostPartialRows));
    }
}
