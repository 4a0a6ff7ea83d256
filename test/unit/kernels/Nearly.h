//===- Nearly.h - Numbers that other orders of sums are near ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TEST_UNIT_KERNELS_NEARLY_H
#define FSDP_TEST_UNIT_KERNELS_NEARLY_H

#include "plan/Kernels.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace fsdp {

/// Operands of a program of middling numbers, and what the interpreter makes of
/// them.
class NearNumbers {
public:
  explicit NearNumbers(const plan::KernelProgramT &program);

  /// Bytes of each operand: those that are written hold ones.
  const std::vector<std::vector<char>> &given() const { return before; }
  /// What of an operand's bytes is not near by, a digit of bf16 or some of f32;
  /// none: all are.
  std::optional<std::string> compare(size_t operand,
                                     const std::vector<char> &found) const;
  /// What is not the same, NaNs of f32 aside.
  std::optional<std::string>
  compareExactly(size_t operand, const std::vector<char> &found) const;

private:
  const plan::KernelProgramT &program;
  std::vector<std::vector<char>> before, after;
};

/// Whether a GPU's own approximations, or orders of sums, are in a program.
bool isApproximateOnGpus(const plan::KernelProgramT &program);

} // namespace fsdp

#endif // FSDP_TEST_UNIT_KERNELS_NEARLY_H
