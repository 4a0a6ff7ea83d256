//===- DequantizeNumbers.cpp - Blocks of codes, on devices and the host ---===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/DType.h"
#include "runtime/cuda/Kernels.h"
#include "support/BlockNumbers.h"
#include "support/QuantizedBlocks.h"
#include "test/unit/runtime/cuda/KernelNumbers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

using namespace fsdp;
using namespace fsdp::test;
using plan::DType;

namespace {

/// Scales that are none of those that blocks usually have, among them.
constexpr float kScales[] = {0.02f,
                             1.0f,
                             -3.5f,
                             0.0f,
                             -0.0f,
                             std::numeric_limits<float>::infinity(),
                             -std::numeric_limits<float>::infinity(),
                             std::numeric_limits<float>::quiet_NaN(),
                             -std::numeric_limits<float>::signaling_NaN(),
                             std::numeric_limits<float>::denorm_min(),
                             1e-40f,
                             std::numeric_limits<float>::max(),
                             1e-6f, // halves that are no normal numbers
                             65519.9f,
                             65520.0f};

/// All bytes as codes, and all of the scales.
std::vector<uint8_t> makeRows(const BlockForm &form, int64_t elements) {
  auto bytes = static_cast<size_t>(form.getRowBytes());
  std::vector<uint8_t> rows(static_cast<size_t>(form.countRows(elements)) *
                            bytes);
  for (size_t i = 0; i < rows.size(); ++i)
    rows[i] = static_cast<uint8_t>(i * 37 + i / 256 * 11);
  for (size_t row = 0; row * bytes < rows.size(); ++row) {
    std::memcpy(&rows[row * bytes], &kScales[row % std::size(kScales)], 4);
    float offset =
        row % 3 == 0 ? 1.5f : kScales[(row + 5) % std::size(kScales)];
    if (form.hasCodedScales)
      std::memcpy(&rows[row * bytes + 4], &offset, 4);
  }
  return rows;
}

std::vector<uint8_t> onHost(const BlockForm &form, const uint8_t *rows,
                            int64_t elements, DType dtype) {
  int64_t all = form.countBlocks(elements);
  std::vector<float> wide(static_cast<size_t>(all * form.elements));
  dequantizeBlocks(form, rows, 0, all, wide.data());
  std::vector<uint8_t> bytes(static_cast<size_t>(elements) * dtypeBytes(dtype));
  for (size_t i = 0; i < static_cast<size_t>(elements); ++i) {
    uint16_t half = dtype == DType::bf16 ? element::toBf16(wide[i])
                                         : blocks::roundToHalf(wide[i]);
    if (dtype == DType::f32)
      std::memcpy(&bytes[4 * i], &wide[i], 4);
    else
      std::memcpy(&bytes[2 * i], &half, 2);
  }
  return bytes;
}

void expectTheHosts(KernelMemory &memory, const BlockForm &form,
                    int64_t elements, DType dtype, uint64_t skew,
                    uint64_t outputSkew) {
  SCOPED_TRACE(getName(form) + " to " + std::string(dtypeName(dtype)) + ", " +
               std::to_string(elements) + " elements, rows " +
               std::to_string(skew) + " and numbers " +
               std::to_string(outputSkew) + " bytes beside a multiple of 16");
  memory.clear();
  std::vector<uint8_t> rows = makeRows(form, elements);
  std::vector<uint8_t> expected = onHost(form, rows.data(), elements, dtype);
  char *from = memory.make(rows.size(), skew);
  char *to = memory.make(expected.size(), outputSkew);
  memory.write(from, rows.data(), rows.size());
  dequantizeOnDevice({form, from, to, static_cast<size_t>(elements), dtype},
                     memory.onStream());
  std::vector<uint8_t> found(expected.size());
  memory.read(found.data(), to, found.size());
  auto [a, b] = std::ranges::mismatch(found, expected);
  EXPECT_TRUE(a == found.end())
      << "the first other byte is " << a - found.begin() << ": " << int(*a)
      << " for " << int(*b);
}

} // namespace

void fsdp::test::expectTheHostsNumbersOfCodes(KernelMemory &memory) {
  for (auto kind : {BlockKind::Nf4, BlockKind::Fp4, BlockKind::Int8})
    for (bool isDouble : {false, true})
      for (int64_t size : {32, 64, 256, 4096}) {
        BlockForm form{kind, size, isDouble};
        for (DType dtype : {DType::f32, DType::bf16, DType::f16}) {
          auto width = dtypeBytes(dtype);
          // A shard may begin at any row.
          expectTheHosts(memory, form, 20 * size + 8, dtype, 0, 0);
          expectTheHosts(memory, form, 9 * size + 5, dtype, 4, 0);
          expectTheHosts(memory, form, 3 * size - 1, dtype, 12, width);
          expectTheHosts(memory, form, 1, dtype, 8, 0);
        }
        expectTheHosts(memory, form, 2 * size + 3, DType::bf16, 1, 0);
        expectTheHosts(memory, form, 2 * size, DType::f32, 6, 0);
      }
  // Several tiles, and several rows of coded scales.
  for (bool isDouble : {false, true})
    for (auto kind : {BlockKind::Nf4, BlockKind::Int8}) {
      BlockForm form{kind, 64, isDouble};
      expectTheHosts(memory, form, 3 * 16384 + 4096 + 77, DType::bf16, 4, 0);
      expectTheHosts(memory, form, 16384 + 64, DType::f32, 0, 4);
    }
  dequantizeOnDevice({BlockForm(), nullptr, nullptr, 0, DType::f32},
                     memory.onStream());
}
