//===- Programs.h - Programs of kernels to try ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TEST_UNIT_KERNELS_PROGRAMS_H
#define FSDP_TEST_UNIT_KERNELS_PROGRAMS_H

#include "plan/Kernels.h"

#include <cstdint>
#include <random>

namespace fsdp {

/// Puts a program together; what is put together is sound.
class ProgramBuilder {
public:
  explicit ProgramBuilder(std::vector<int64_t> rows) {
    program.rows = std::move(rows);
  }

  /// An operand to read, and its load; its rows are contiguous.
  uint32_t load(plan::DType dtype, uint64_t columns);
  uint32_t load(plan::DType dtype, uint64_t columns,
                std::vector<int64_t> rowStrides, int64_t columnStride);
  uint32_t op(KernelOpKind kind, std::vector<uint32_t> args = {},
              std::vector<int64_t> integers = {}, double number = 0);
  /// An operand that takes a value.
  void store(plan::DType dtype, uint32_t op);
  void store(plan::DType dtype, uint32_t op, std::vector<int64_t> rowStrides,
             int64_t columnStride);
  /// One that takes the sum over rows.
  void storeSum(uint32_t op, plan::DType dtype = plan::DType::f32);

  const std::vector<KernelValue> &values() const { return known; }
  std::vector<int64_t> contiguous(uint64_t columns) const;

  plan::KernelProgramT program;

private:
  size_t addOperand(plan::DType dtype, uint64_t columns,
                    std::vector<int64_t> rowStrides, int64_t columnStride,
                    int32_t written);
  std::vector<KernelValue> known;
};

/// Sound, of any operations, dtypes, strides and columns.
plan::KernelProgramT makeRandomProgram(std::mt19937_64 &random);

} // namespace fsdp

#endif // FSDP_TEST_UNIT_KERNELS_PROGRAMS_H
