//===- Nearly.cpp - Numbers that other orders of sums are near ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "test/unit/kernels/Nearly.h"

#include "kernels/Interpreter.h"
#include "plan/DType.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

using namespace fsdp;
using plan::DType;

static float numberAt(DType dtype, const char *at) {
  uint32_t bits = 0;
  std::memcpy(&bits, at, std::min<size_t>(4, dtypeBytes(dtype)));
  if (dtype == DType::f16)
    return float(std::bit_cast<_Float16>(uint16_t(bits)));
  if (dtype == DType::bf16)
    bits <<= 16;
  return std::bit_cast<float>(bits);
}

/// A number's bytes, cut to bf16.
static void put(char *at, size_t size, float number) {
  std::memcpy(at, reinterpret_cast<char *>(&number) + 4 - size, size);
}

NearNumbers::NearNumbers(const plan::KernelProgramT &program)
    : program(program) {
  std::mt19937_64 random(5);
  std::vector<std::vector<float>> sums(program.operands.size());
  std::vector<void *> addresses;
  for (size_t i = 0; i < program.operands.size(); ++i) {
    const plan::KernelOperandT &operand = *program.operands[i];
    size_t size = dtypeBytes(operand.dtype);
    std::vector<char> bytes(extentOf(program, i) * size, '\xff');
    for (size_t c = 0; c < bytes.size() && operand.written == -1; c += size) {
      std::fill_n(&bytes[c], size, '\0');
      float number = float(random() % 2000) / 1000 - (size == 8 ? 0 : 1) +
                     (i == 2 || i == 4 ? 1.001f : 0);
      if (size == 8)
        bytes[c] = char(random() % 8);
      else if (size >= 2)
        put(&bytes[c], size, number);
      else
        bytes[c] = char(random() % 2);
    }
    before.push_back(bytes);
    after.push_back(std::move(bytes));
  }
  for (size_t i = 0; i < program.operands.size(); ++i) {
    if (takesRowSum(program, i))
      sums[i].resize(program.operands[i]->columns);
    addresses.push_back(takesRowSum(program, i)
                            ? static_cast<void *>(sums[i].data())
                            : after[i].data());
  }
  interpret(program, addresses, 0,
            isFlat(program) ? int64_t(columnsOf(program)) : rowsOf(program));
  for (size_t i = 0; i < program.operands.size(); ++i) {
    DType dtype = program.operands[i]->dtype;
    for (size_t c = 0; c < sums[i].size(); ++c)
      if (dtype == DType::f16) {
        auto half = _Float16(sums[i][c]);
        std::memcpy(&after[i][2 * c], &half, 2);
      } else if (dtype == DType::bf16) {
        auto bits = std::bit_cast<uint32_t>(sums[i][c]);
        bits += 0x7fff + (bits >> 16 & 1);
        put(&after[i][2 * c], 2, std::bit_cast<float>(bits));
      } else {
        put(&after[i][4 * c], 4, sums[i][c]);
      }
  }
}

std::optional<std::string>
NearNumbers::compare(size_t operand, const std::vector<char> &found) const {
  DType dtype = program.operands[operand]->dtype;
  size_t size = dtypeBytes(dtype);
  if (size != 2 && dtype != DType::f32)
    return compareExactly(operand, found);
  const std::vector<char> &expected = after[operand];
  double allowed = size == 2                       ? 0x1p-6
                   : takesRowSum(program, operand) ? 1e-2
                                                   : 2e-5;
  for (size_t c = 0; c < expected.size(); c += size) {
    double there = numberAt(dtype, &found[c]),
           wanted = numberAt(dtype, &expected[c]);
    if (!(std::abs(there - wanted) <= allowed * (1 + std::abs(wanted))))
      return "operand " + std::to_string(operand) + ", element " +
             std::to_string(c / size) + ": expected " + std::to_string(wanted) +
             ", found " + std::to_string(there);
  }
  return std::nullopt;
}

std::optional<std::string>
NearNumbers::compareExactly(size_t operand,
                            const std::vector<char> &found) const {
  DType dtype = program.operands[operand]->dtype;
  size_t size = dtypeBytes(dtype);
  for (size_t c = 0; c < found.size(); c += size) {
    const char *there = &found[c], *wanted = &after[operand][c];
    bool areNan = dtype == DType::f32 && std::isnan(numberAt(dtype, there)) &&
                  std::isnan(numberAt(dtype, wanted));
    if (!areNan && std::memcmp(there, wanted, size))
      return "operand " + std::to_string(operand) + ", element " +
             std::to_string(c / size) + " differs";
  }
  return std::nullopt;
}

bool fsdp::isApproximateOnGpus(const plan::KernelProgramT &program) {
  return std::ranges::any_of(program.ops, [](const auto &op) {
    switch (kindOf(*op)) {
    case KernelOpKind::exp:
    case KernelOpKind::log:
    case KernelOpKind::tanh:
    case KernelOpKind::erf:
    case KernelOpKind::div:
    case KernelOpKind::sum_columns:
    case KernelOpKind::sum_rows:
      return true;
    default:
      return false;
    }
  });
}
