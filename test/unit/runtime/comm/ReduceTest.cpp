//===- ReduceTest.cpp - Arithmetic of the back ends -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/comm/Reduce.h"
#include "support/Error.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Float8_e4m3fn.h>
#include <c10/util/Half.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

using namespace fsdp;
using plan::DType;
using plan::Reduction;

namespace {

template <typename T>
std::vector<T> reduce(std::vector<std::vector<T>> rows, DType dtype,
                      Reduction reduction) {
  std::vector<T> out(rows[0].size());
  std::vector<const void *> sources;
  for (auto &row : rows)
    sources.push_back(row.data());
  void *output = out.data();
  reduceRows(sources, {&output, 1}, out.size(), dtype, reduction);
  return out;
}

/// Every 16-bit pattern comes through unchanged, or as a NaN.
template <typename T>
void roundTrip(DType dtype) {
  std::vector<T> all(65536);
  for (uint32_t bits = 0; bits < 65536; ++bits)
    all[bits].x = static_cast<uint16_t>(bits);
  auto found = reduce<T>({all}, dtype, Reduction::sum);
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    if (std::isnan(static_cast<float>(all[bits])))
      ASSERT_TRUE(std::isnan(static_cast<float>(found[bits]))) << bits;
    else
      ASSERT_EQ(found[bits].x, bits);
  }
}

TEST(Reduce, SixteenBitTypesRoundTrip) {
  roundTrip<c10::BFloat16>(DType::bf16);
  roundTrip<c10::Half>(DType::f16);
}

/// Rounds like LibTorch does: once, ties to even.
template <typename T>
void roundsOnce(DType dtype, float scale) {
  std::vector<std::vector<T>> rows(3, std::vector<T>(5000));
  for (size_t row = 0; row < rows.size(); ++row)
    for (size_t i = 0; i < rows[row].size(); ++i)
      rows[row][i] =
          static_cast<T>(std::sin(static_cast<float>(i * (row + 1))) * 100.0f);
  auto found = reduce<T>(rows, dtype, Reduction::avg);
  for (size_t i = 0; i < found.size(); ++i) {
    float sum = static_cast<float>(rows[0][i]) + static_cast<float>(rows[1][i]);
    sum += static_cast<float>(rows[2][i]);
    T expected = static_cast<T>(sum / 3.0f);
    if (std::isnan(static_cast<float>(expected)))
      ASSERT_TRUE(std::isnan(static_cast<float>(found[i])));
    else
      ASSERT_EQ(found[i].x, expected.x);
  }
}

TEST(Reduce, SixteenBitTypesRoundOnce) {
  // Subnormal halves, ordinary numbers, and halves that overflow.
  for (float scale : {1e-6f, 1e-4f, 100.0f, 70000.0f}) {
    roundsOnce<c10::BFloat16>(DType::bf16, scale);
    roundsOnce<c10::Half>(DType::f16, scale);
  }
}

TEST(Reduce, DividesBeforeAndAfter) {
  // Each alone is close to the greatest half; so is their mean.
  c10::Half rows[4] = {65000, 64000, 65000, 64000}, out;
  const void *sources[] = {&rows[0], &rows[1], &rows[2], &rows[3]};
  void *output = &out;
  reduceRows(sources, {&output, 1}, 1, DType::f16, {Reduction::sum, 2, 2});
  EXPECT_EQ(static_cast<float>(out), 64512);
  float numbers[2] = {3, 9}, sum;
  const void *two[] = {&numbers[0], &numbers[1]};
  output = &sum;
  reduceRows(two, {&output, 1}, 1, DType::f32, {Reduction::sum, 3, 2});
  EXPECT_EQ(sum, 2);
}

TEST(Reduce, NotANumberWinsAMaximum) {
  float nan = std::numeric_limits<float>::quiet_NaN();
  auto found =
      reduce<float>({{nan, 1, 2}, {1, nan, 3}}, DType::f32, Reduction::max);
  EXPECT_TRUE(std::isnan(found[0]));
  EXPECT_TRUE(std::isnan(found[1]));
  EXPECT_EQ(found[2], 3);
}

TEST(Reduce, SignedMaximaAndWrappingSums) {
  EXPECT_EQ(reduce<int64_t>({{-5, 3}, {2, -9}}, DType::i64, Reduction::max),
            (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(reduce<int32_t>({{std::numeric_limits<int32_t>::max()}, {1}},
                            DType::i32, Reduction::sum),
            (std::vector<int32_t>{std::numeric_limits<int32_t>::min()}));
}

TEST(Reduce, ComplexNumbersAreTwoReals) {
  // One complex element is two floats.
  float rows[2][2] = {{1, 2}, {3, 6}};
  const void *sources[] = {rows[0], rows[1]};
  float out[2];
  void *output = out;
  reduceRows(sources, {&output, 1}, 1, DType::c64, Reduction::avg);
  EXPECT_EQ(out[0], 2);
  EXPECT_EQ(out[1], 4);
}

TEST(Reduce, WiderSumsAreNotRounded) {
  // 1 + 2^-8 takes more bits than bf16 has.
  c10::BFloat16 rows[2][2] = {{1.0f, 3.0f}, {1.0f / 256, -3.0f}};
  const void *sources[] = {rows[0], rows[1]};
  float out[2];
  void *output = out;
  reduceRows(sources, {&output, 1}, 2, DType::bf16, DType::f32, Reduction::sum);
  EXPECT_EQ(out[0], 1 + 1.0f / 256);
  EXPECT_EQ(out[1], 0);
  EXPECT_THROW(checkReduction(DType::f32, Reduction::sum, DType::f64), Error);
  EXPECT_THROW(checkReduction(DType::f32, Reduction::sum, DType::bf16), Error);
  EXPECT_THROW(checkReduction(DType::bf16, Reduction::max, DType::f32), Error);
  EXPECT_NO_THROW(checkReduction(DType::f16, Reduction::avg, DType::f32));
}

TEST(Reduce, SumsOfEightBitsAreInFloat) {
  std::vector<c10::Float8_e4m3fn> all(256);
  for (uint32_t bits = 0; bits < 256; ++bits)
    all[bits].x = static_cast<uint8_t>(bits);
  std::vector<c10::Float8_e4m3fn> two(256, c10::Float8_e4m3fn(2.0f));
  const void *sources[] = {all.data(), two.data()};
  std::vector<float> found(256);
  void *output = found.data();
  reduceRows(sources, {&output, 1}, 256, DType::f8e4m3fn, DType::f32,
             Reduction::avg);
  for (uint32_t bits = 0; bits < 256; ++bits) {
    float value = static_cast<float>(all[bits]);
    if (std::isnan(value))
      EXPECT_TRUE(std::isnan(found[bits])) << bits;
    else
      EXPECT_EQ(found[bits], (value + 2) / 2) << bits;
  }
  EXPECT_THROW(checkReduction(DType::f8e4m3fn, Reduction::max, DType::f32),
               Error);
  EXPECT_THROW(checkReduction(DType::f8e5m2, Reduction::sum, DType::f32),
               Error);
}

TEST(Reduce, RefusesWhatHasNoMeaning) {
  for (auto [dtype, reduction] : {std::pair(DType::i64, Reduction::avg),
                                  std::pair(DType::bool_, Reduction::sum),
                                  std::pair(DType::c64, Reduction::max),
                                  std::pair(DType::f8e4m3fn, Reduction::sum)})
    EXPECT_THROW(checkReduction(dtype, reduction), Error);
  for (DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16})
    EXPECT_NO_THROW(checkReduction(dtype, Reduction::avg));
}

} // namespace
