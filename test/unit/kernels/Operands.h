//===- Operands.h - Memory of kernels' operands -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TEST_UNIT_KERNELS_OPERANDS_H
#define FSDP_TEST_UNIT_KERNELS_OPERANDS_H

#include "plan/Kernels.h"

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace fsdp {

/// Operands of a program in one block of memory, with bytes between them that
/// nothing may change. Copies are in another place.
class Operands {
public:
  /// Random numbers, special ones among them; `overlays`: what is written lies
  /// over what is read where it may, half of the time.
  Operands(const plan::KernelProgramT &program, std::mt19937_64 &random,
           bool overlays);

  std::vector<void *> addresses();
  /// In what the bytes differ; NaNs of f32 are one.
  std::optional<std::string> compare(const Operands &other) const;

  void *at(size_t operand) { return bytes.data() + places[operand]; }

private:
  void fill(const plan::KernelProgramT &program, size_t operand,
            std::mt19937_64 &random);

  std::vector<size_t> places, extents; ///< bytes
  std::vector<plan::DType> dtypes;
  std::vector<uint8_t> bytes;
};

} // namespace fsdp

#endif // FSDP_TEST_UNIT_KERNELS_OPERANDS_H
