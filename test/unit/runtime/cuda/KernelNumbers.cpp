//===- KernelNumbers.cpp - What our own kernels are to compute ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "test/unit/runtime/cuda/KernelNumbers.h"

#include "plan/DType.h"
#include "runtime/cuda/Kernels.h"
#include "runtime/random/Sampling.h"
#include "support/Error.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

using namespace fsdp;
using namespace fsdp::test;
using plan::Distribution;
using plan::DType;
using plan::Reduction;

namespace {

struct ReductionCase {
  DType dtype;
  Combination combination;
  size_t elements, rows, outputs;
  uint64_t skew;

  std::string text() const {
    return std::string(dtypeName(dtype)) + " " +
           plan::EnumNameReduction(combination.reduction) + " of " +
           std::to_string(rows) + " rows of " + std::to_string(elements) +
           ", " + std::to_string(skew) + " bytes beside a multiple of 16";
  }
};

/// Any bits but those of infinities and NaNs.
std::vector<std::byte> makeRow(uint64_t bytes, size_t row) {
  std::vector<std::byte> made(bytes);
  for (size_t i = 0; i < bytes; ++i)
    made[i] = static_cast<std::byte>((i * 31 + row * 17 + i / 64) &
                                     (i % 2 ? 0xbf : 0xff));
  return made;
}

void expectTheHostsBits(KernelMemory &memory, const ReductionCase &each) {
  SCOPED_TRACE(each.text());
  memory.clear();
  uint64_t bytes = each.elements * dtypeBytes(each.dtype);
  std::vector<std::vector<std::byte>> rows;
  std::vector<const void *> onHost, onDevice;
  for (size_t row = 0; row < each.rows; ++row) {
    rows.push_back(makeRow(bytes, row));
    char *place = memory.make(bytes, each.skew);
    memory.write(place, rows.back().data(), bytes);
    onDevice.push_back(place);
  }
  for (const auto &row : rows)
    onHost.push_back(row.data());
  std::vector<std::byte> expected(bytes), found(bytes);
  void *to = expected.data();
  std::vector<void *> outputs;
  for (size_t i = 0; i < each.outputs; ++i)
    outputs.push_back(memory.make(bytes, each.skew));
  reduceRows(onHost, {&to, 1}, each.elements, each.dtype, each.combination);
  reduceOnDevice(onDevice, outputs, each.elements, each.dtype, each.combination,
                 memory.onStream());
  for (void *output : outputs) {
    memory.read(found.data(), static_cast<char *>(output), bytes);
    EXPECT_EQ(found, expected);
  }
}

} // namespace

void fsdp::test::expectTheHostsReductions(KernelMemory &memory) {
  for (auto dtype :
       {DType::f32, DType::f64, DType::f16, DType::bf16, DType::c64,
        DType::c128, DType::i64, DType::i32, DType::u8, DType::bool_})
    for (auto reduction : {Reduction::sum, Reduction::avg, Reduction::max}) {
      bool isWhole = dtype == DType::i64 || dtype == DType::i32 ||
                     dtype == DType::u8 || dtype == DType::bool_;
      bool isComplex = dtype == DType::c64 || dtype == DType::c128;
      if ((isWhole && reduction == Reduction::avg) ||
          (isComplex && reduction == Reduction::max))
        continue;
      Combination combination(reduction);
      if (reduction == Reduction::sum && !isWhole)
        combination = {reduction, 3, 7};
      // Rows that begin at multiples of 16 bytes are read 16 at a time.
      for (uint64_t skew : {uint64_t(0), dtypeBytes(dtype) % 16}) {
        expectTheHostsBits(memory, {dtype, combination, 10007, 3, 1, skew});
        expectTheHostsBits(memory, {dtype, combination, 1, 2, 2, skew});
        expectTheHostsBits(memory, {dtype, combination, 37, 5, 3, skew});
      }
    }
  // Too many ranks are refused, and nothing is nothing.
  std::vector<const void *> many(kMaxReducedRows + 1, nullptr);
  void *none = nullptr;
  EXPECT_THROW(reduceOnDevice(many, {&none, 1}, 1, DType::f32,
                              Combination(Reduction::sum), memory.onStream()),
               Error);
  reduceOnDevice(many, {&none, 1}, 0, DType::f32, Combination(Reduction::sum),
                 memory.onStream());
}

void fsdp::test::expectTheHostsPartSums(KernelMemory &memory) {
  struct Case {
    DType dtype;
    size_t elements, count;
    uint64_t skew;
    double pre, post;
  };
  for (auto dtype : {DType::f32, DType::f16, DType::bf16, DType::f8e4m3fn})
    for (const Case &each : {
             Case{dtype, 10016, 3, 0, 1, 3}, // 16 bytes at a time
             Case{dtype, 10016, 3, dtypeBytes(dtype), 1, 3},
             Case{dtype, 10007, 4, 0, 2, 7},
             Case{dtype, 1, 512, 0, 1, 1},
             Case{dtype, 16, 1, 0, 3, 1},
         }) {
      SCOPED_TRACE(std::string(dtypeName(dtype)) + " " +
                   std::to_string(each.elements) + " of " +
                   std::to_string(each.count));
      memory.clear();
      uint64_t bytes = each.elements * dtypeBytes(dtype);
      // All bytes are numbers of e4m3 but two.
      std::vector<std::byte> parts;
      for (size_t part = 0; part < each.count; ++part)
        for (std::byte byte : makeRow(bytes, part))
          parts.push_back(dtype == DType::f8e4m3fn &&
                                  (byte & std::byte(0x7f)) == std::byte(0x7f)
                              ? std::byte(0x7e)
                              : byte);
      std::vector<const void *> rows;
      for (size_t part = 0; part < each.count; ++part)
        rows.push_back(parts.data() + part * bytes);
      std::vector<float> expected(each.elements), found(each.elements);
      void *to = expected.data();
      reduceRows(rows, {&to, 1}, each.elements, dtype, DType::f32,
                 Combination(Reduction::sum, each.pre, each.post));
      char *given = memory.make(parts.size(), each.skew);
      memory.write(given, parts.data(), parts.size());
      char *sum = memory.make(each.elements * sizeof(float), 0);
      sumPartsOnDevice({given, sum, each.elements, static_cast<int>(each.count),
                        dtype, each.pre, each.post},
                       memory.onStream());
      memory.read(found.data(), sum, each.elements * sizeof(float));
      EXPECT_EQ(std::memcmp(found.data(), expected.data(),
                            each.elements * sizeof(float)),
                0);
    }
  // Nothing is nothing.
  sumPartsOnDevice({nullptr, nullptr, 0, 2, DType::bf16, 1, 1},
                   memory.onStream());
  EXPECT_THROW(sumPartsOnDevice({nullptr, nullptr, 1, 1, DType::i32, 1, 1},
                                memory.onStream()),
               Error);
}

void fsdp::test::expectTheHostsDraws(KernelMemory &memory) {
  constexpr int64_t kState[] = {1234567890123, (int64_t(5) << 32) + 6};
  struct Case {
    DrawParameters parameters;
    at::ScalarType type;
    DType dtype;
    double tolerance; ///< relative
  };
  using Kind = Distribution;
  const std::vector<Case> cases{
      {{Kind::bernoulli, {0.3}, {}, {}}, at::kBool, DType::bool_, 0},
      {{Kind::bernoulli, {1.0}, {}, {}}, at::kBFloat16, DType::bf16, 0},
      {{Kind::integer, {}, {-5, 1000}, {}}, at::kLong, DType::i64, 0},
      {{Kind::integer, {}, {0, 100}, {}}, at::kFloat, DType::f32, 0},
      {{Kind::uniform, {-1, 3}, {}, {}}, at::kFloat, DType::f32, 0},
      {{Kind::uniform, {-1, 3}, {}, {}}, at::kDouble, DType::f64, 0},
      {{Kind::uniform, {0, 1}, {}, {}}, at::kHalf, DType::f16, 0},
      {{Kind::uniform, {0, 1}, {}, {}}, at::kBFloat16, DType::bf16, 0},
      {{Kind::normal, {1, 2}, {}, {}}, at::kFloat, DType::f32, 1e-5},
      {{Kind::normal, {1, 2}, {}, {}}, at::kDouble, DType::f64, 1e-12},
      {{Kind::log_normal, {0, 1}, {}, {}}, at::kFloat, DType::f32, 1e-4},
      {{Kind::exponential, {2}, {}, {}}, at::kFloat, DType::f32, 1e-5},
      {{Kind::cauchy, {0, 1}, {}, {}}, at::kFloat, DType::f32, 1e-2},
      {{Kind::geometric, {0.25}, {}, {}}, at::kLong, DType::i64, 0}};
  for (const Case &each : cases)
    for (int64_t count : {int64_t(10007), int64_t(1), int64_t(70)}) {
      SCOPED_TRACE(
          std::string(plan::EnumNameDistribution(each.parameters.kind)) + " " +
          std::string(dtypeName(each.dtype)) + " " + std::to_string(count));
      memory.clear();
      char *state = memory.make(sizeof(kState));
      memory.write(state, kState, sizeof(kState));
      at::Tensor expected = at::empty({count}, each.type);
      sample(each.parameters, RandomSequence(kState[0], kState[1], 3, 9),
             expected);
      DeviceDraw draw{each.parameters.kind,
                      each.parameters.numbers,
                      each.parameters.range,
                      reinterpret_cast<const int64_t *>(state),
                      3,
                      9,
                      memory.make(expected.nbytes()),
                      static_cast<size_t>(count),
                      each.dtype};
      ASSERT_TRUE(canDrawOnDevice(draw));
      drawOnDevice(draw, memory.onStream());
      at::Tensor found = at::empty({count}, each.type);
      memory.read(found.mutable_data_ptr(),
                  static_cast<const char *>(draw.output), found.nbytes());
      if (each.tolerance == 0) {
        EXPECT_EQ(std::memcmp(found.const_data_ptr(), expected.const_data_ptr(),
                              found.nbytes()),
                  0);
        continue;
      }
      at::Tensor a = found.to(at::kDouble), b = expected.to(at::kDouble);
      for (int64_t i = 0; i < count; ++i) {
        double x = a.data_ptr<double>()[i];
        double y = b.data_ptr<double>()[i];
        ASSERT_NEAR(x, y, each.tolerance * (1 + std::abs(y))) << i;
      }
    }
}

void fsdp::test::expectCounts(KernelMemory &memory) {
  memory.clear();
  uint64_t zero = 0, there = 0, seen = 0;
  char *count = memory.make(8), *shown = memory.make(8);
  memory.write(count, &zero, 8);
  memory.write(shown, &zero, 8);
  for (uint64_t i = 1; i <= 3; ++i) {
    raiseOnDevice(reinterpret_cast<uint64_t *>(count),
                  reinterpret_cast<uint64_t *>(shown), memory.onStream());
    memory.read(&there, count, 8);
    memory.read(&seen, shown, 8);
    EXPECT_EQ(there, i);
    EXPECT_EQ(seen, i);
  }
}
