//===- CodeSize.cpp - How long the code of a program is -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "kernels/CodeSize.h"

#include "kernels/Failure.h"
#include "kernels/Nest.h"

#include <algorithm>

using namespace fsdp;
using plan::KernelOpT;

unsigned fsdp::costOf(const plan::KernelProgramT &program,
                      const KernelOpT &op) {
  switch (kindOf(op)) {
  case KernelOpKind::load: {
    plan::DType dtype = program.operands[size_t(op.integers[0])]->dtype;
    return dtype == plan::DType::f16 ? 14 : 3;
  }
  case KernelOpKind::exp:
    return 26;
  case KernelOpKind::log:
    return 32;
  case KernelOpKind::tanh:
    return 42;
  case KernelOpKind::erf:
    return 60;
  case KernelOpKind::round_bf16:
    return 7;
  case KernelOpKind::round_f16:
    return 16;
  case KernelOpKind::to_f32:
  case KernelOpKind::mul_integers:
    return 12;
  case KernelOpKind::maximum:
  case KernelOpKind::minimum:
    return 3;
  default:
    return 1;
  }
}

unsigned fsdp::costOfStore(plan::DType dtype) {
  bool isFloat8 =
      dtype == plan::DType::f8e4m3fn || dtype == plan::DType::f8e5m2;
  return isFloat8 ? 30 : dtype == plan::DType::f16 ? 26 : 10;
}

/// What a loop computes for one vector of each of its segments.
static uint64_t sizeOf(const Nest &nest, const ColumnLoop &loop) {
  Pieces pieces = nest.piecesOf(loop);
  auto segments = [&](const Window &window) {
    auto begin =
        std::ranges::lower_bound(pieces.borders, uint64_t(window.from));
    return uint64_t(std::ranges::lower_bound(begin, pieces.borders.end(),
                                             uint64_t(window.to)) -
                    begin);
  };
  uint64_t size = 0;
  for (const Window &window : pieces.windows)
    size +=
        segments(window) * costOf(nest.program, *nest.program.ops[window.op]);
  for (size_t operand : loop.stores)
    size += (pieces.borders.size() - 1) *
            costOfStore(nest.program.operands[operand]->dtype);
  return size;
}

std::optional<uint64_t> fsdp::codeSizeOf(const plan::KernelProgramT &program) {
  Nest nest(program);
  uint64_t size = 0;
  for (size_t i = 0; i < program.ops.size(); ++i)
    if (nest.isLive[i] && (nest.isLine || nest.isUniform[i]))
      size += costOf(program, *program.ops[i]);
  for (size_t operand : nest.stores)
    size += costOfStore(program.operands[operand]->dtype);
  try {
    for (const ColumnLoop &loop : nest.loops)
      size += sizeOf(nest, loop);
  } catch (const EmitFailure &) {
    return std::nullopt;
  }
  return size;
}
