//===- QuantizedBlocksTest.cpp - Frozen numbers in blocks of codes --------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "support/QuantizedBlocks.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

using namespace fsdp;

namespace {

using Bytes = std::vector<uint8_t>;

Bytes quantize(BlockKind kind, const std::vector<float> &values) {
  auto elements = static_cast<int64_t>(values.size());
  Bytes bytes(static_cast<size_t>(countBlocks(elements) * getBlockBytes(kind)));
  EXPECT_EQ(quantizeBlocks(kind, values.data(), elements, bytes.data()), -1);
  return bytes;
}

std::vector<float> read(BlockKind kind, const Bytes &bytes) {
  auto blocks = static_cast<int64_t>(bytes.size()) / getBlockBytes(kind);
  std::vector<float> values(static_cast<size_t>(blocks * kQuantizedElements));
  dequantizeBlocks(kind, bytes.data(), blocks, values.data());
  return values;
}

float scaleOf(const Bytes &bytes) {
  float scale;
  std::memcpy(&scale, bytes.data(), sizeof(scale));
  return scale;
}

std::vector<float> draw(size_t count) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal(0, 0.02f);
  std::vector<float> values(count);
  for (float &value : values)
    value = normal(random);
  return values;
}

TEST(QuantizedBlocks, HaveAScaleAndCodes) {
  EXPECT_EQ(getBlockBytes(BlockKind::Nf4), 36);
  EXPECT_EQ(getBlockBytes(BlockKind::Int8), 68);
  EXPECT_EQ(countBlocks(0), 0);
  EXPECT_EQ(countBlocks(1), 1);
  EXPECT_EQ(countBlocks(64), 1);
  EXPECT_EQ(countBlocks(65), 2);
}

TEST(QuantizedBlocks, KeepAll16NumbersOfNf4) {
  std::vector<float> values;
  for (float value : getNf4Values())
    values.push_back(3 * value);
  Bytes bytes = quantize(BlockKind::Nf4, values);
  EXPECT_EQ(scaleOf(bytes), 3);
  // The first of two in the upper half.
  for (size_t i = 0; i < 8; ++i)
    EXPECT_EQ(bytes[4 + i], (2 * i) << 4 | (2 * i + 1));
  std::vector<float> again = read(BlockKind::Nf4, bytes);
  for (size_t i = 0; i < values.size(); ++i)
    EXPECT_EQ(again[i], values[i]);
  for (size_t i = values.size(); i < again.size(); ++i)
    EXPECT_EQ(again[i], 0);
}

TEST(QuantizedBlocks, GiveTiesToTheLowerNumberOfNf4) {
  const auto &numbers = getNf4Values();
  for (size_t code = 0; code + 1 < numbers.size(); ++code) {
    auto middle = static_cast<float>(
        (static_cast<double>(numbers[code]) + numbers[code + 1]) / 2);
    std::vector<float> values(64, 0.0f);
    values[0] = -1;
    values[1] = middle;
    values[2] = std::nextafter(middle, 2.0f);
    std::vector<float> again =
        read(BlockKind::Nf4, quantize(BlockKind::Nf4, values));
    EXPECT_EQ(again[1], numbers[code]);
    EXPECT_EQ(again[2], numbers[code + 1]);
  }
}

TEST(QuantizedBlocks, RoundInt8ToEven) {
  std::vector<float> values(64, 0.0f);
  values[0] = -127;
  for (int i = 1; i < 64; ++i)
    values[static_cast<size_t>(i)] = static_cast<float>(i) - 0.5f;
  Bytes bytes = quantize(BlockKind::Int8, values);
  EXPECT_EQ(scaleOf(bytes), 1);
  EXPECT_EQ(bytes[4], 0x81);
  std::vector<float> again = read(BlockKind::Int8, bytes);
  EXPECT_EQ(again[0], -127);
  for (int i = 1; i < 64; ++i) {
    auto at = static_cast<size_t>(i);
    EXPECT_EQ(again[at], std::nearbyint(values[at]));
    EXPECT_EQ(static_cast<int>(again[at]) % 2, 0);
  }
}

TEST(QuantizedBlocks, ZerosHaveTheScale0) {
  for (BlockKind kind : {BlockKind::Nf4, BlockKind::Int8}) {
    Bytes bytes = quantize(kind, {0.0f, -0.0f, 0.0f});
    EXPECT_EQ(scaleOf(bytes), 0);
    for (float value : read(kind, bytes))
      EXPECT_EQ(value, 0);
  }
}

TEST(QuantizedBlocks, NumbersThatAreNotNormalStayFinite) {
  float least = std::numeric_limits<float>::denorm_min();
  for (BlockKind kind : {BlockKind::Nf4, BlockKind::Int8})
    for (float greatest : {least, 100 * least, 1e-40f})
      for (float value : read(kind, quantize(kind, {greatest, -greatest}))) {
        EXPECT_TRUE(std::isfinite(value));
        EXPECT_LE(std::abs(value), 2 * greatest);
      }
}

TEST(QuantizedBlocks, RefuseWhatIsNotFinite) {
  for (BlockKind kind : {BlockKind::Nf4, BlockKind::Int8})
    for (float bad : {std::numeric_limits<float>::infinity(),
                      -std::numeric_limits<float>::infinity(),
                      std::numeric_limits<float>::quiet_NaN()})
      for (int64_t at : {0, 63, 64, 99}) {
        std::vector<float> values(100, 1.0f);
        values[static_cast<size_t>(at)] = bad;
        Bytes bytes(static_cast<size_t>(2 * getBlockBytes(kind)));
        EXPECT_EQ(quantizeBlocks(kind, values.data(), 100, bytes.data()), at);
      }
}

TEST(QuantizedBlocks, BlocksDoNotKnowOfEachOther) {
  for (BlockKind kind : {BlockKind::Nf4, BlockKind::Int8})
    for (size_t count : {1u, 63u, 64u, 65u, 130u, 640u}) {
      std::vector<float> values = draw(count);
      Bytes whole = quantize(kind, values), parts;
      for (size_t begin = 0; begin < count; begin += 64) {
        Bytes part =
            quantize(kind, {values.begin() + static_cast<std::ptrdiff_t>(begin),
                            values.begin() + static_cast<std::ptrdiff_t>(
                                                 std::min(begin + 64, count))});
        parts.insert(parts.end(), part.begin(), part.end());
      }
      EXPECT_EQ(whole, parts) << count;
    }
}

TEST(QuantizedBlocks, AreOfTheNearestNumbers) {
  std::vector<float> values = draw(6400);
  for (BlockKind kind : {BlockKind::Nf4, BlockKind::Int8}) {
    std::vector<float> again = read(kind, quantize(kind, values));
    for (size_t i = 0; i < values.size(); ++i) {
      size_t begin = i / 64 * 64;
      float greatest = 0;
      for (size_t k = begin; k < begin + 64; ++k)
        greatest = std::max(greatest, std::abs(values[k]));
      float error = std::abs(again[i] - values[i]);
      if (kind == BlockKind::Int8) {
        EXPECT_LE(error, greatest / 127 * 0.5001f);
        continue;
      }
      float least = std::numeric_limits<float>::infinity();
      for (float number : getNf4Values())
        least = std::min(least, std::abs(number * greatest - values[i]));
      EXPECT_LE(error, least + 1e-8f);
    }
  }
}

} // namespace
