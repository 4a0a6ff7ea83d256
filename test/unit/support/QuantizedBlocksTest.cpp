//===- QuantizedBlocksTest.cpp - Frozen numbers in blocks of codes --------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "support/QuantizedBlocks.h"
#include "support/BlockNumbers.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

using namespace fsdp;

namespace {

using Bytes = std::vector<uint8_t>;

constexpr BlockForm kNf4{BlockKind::Nf4}, kFp4{BlockKind::Fp4},
    kInt8{BlockKind::Int8};

float meanOf(const BlockForm &form, const std::vector<float> &values) {
  ScaleMean mean(form);
  mean.add(values.data(), static_cast<int64_t>(values.size()));
  return mean.get();
}

Bytes quantize(const BlockForm &form, const std::vector<float> &values,
               float offset = 0) {
  auto elements = static_cast<int64_t>(values.size());
  Bytes bytes(
      static_cast<size_t>(form.countRows(elements) * form.getRowBytes()));
  EXPECT_EQ(quantizeBlocks(form, values.data(), elements, offset, bytes.data()),
            -1);
  return bytes;
}

std::vector<float> read(const BlockForm &form, const Bytes &bytes) {
  int64_t blocks = static_cast<int64_t>(bytes.size()) / form.getRowBytes() *
                   form.getRowBlocks();
  std::vector<float> values(static_cast<size_t>(blocks * form.elements));
  dequantizeBlocks(form, bytes.data(), 0, blocks, values.data());
  return values;
}

float floatAt(const Bytes &bytes, size_t at) {
  float value;
  std::memcpy(&value, &bytes[at], sizeof(value));
  return value;
}

float scaleOf(const Bytes &bytes) { return floatAt(bytes, 0); }

std::vector<float> draw(size_t count) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal(0, 0.02f);
  std::vector<float> values(count);
  for (float &value : values)
    value = normal(random);
  return values;
}

std::vector<BlockForm> listForms() {
  std::vector<BlockForm> forms;
  for (BlockKind kind : {BlockKind::Nf4, BlockKind::Fp4, BlockKind::Int8})
    for (int64_t size = BlockForm::kLeast; size <= BlockForm::kGreatest;
         size *= 2)
      for (bool isDouble : {false, true})
        forms.push_back({kind, size, isDouble});
  return forms;
}

TEST(QuantizedBlocks, HaveAScaleAndCodes) {
  EXPECT_EQ(kNf4.getRowBytes(), 36);
  EXPECT_EQ(kFp4.getRowBytes(), 36);
  EXPECT_EQ(kInt8.getRowBytes(), 68);
  EXPECT_EQ((BlockForm{BlockKind::Nf4, 4096}.getRowBytes()), 4 + 2048);
  EXPECT_EQ((BlockForm{BlockKind::Nf4, 64, true}.getRowBytes()),
            8 + 256 + 256 * 32);
  EXPECT_EQ(kNf4.countBlocks(0), 0);
  EXPECT_EQ(kNf4.countBlocks(1), 1);
  EXPECT_EQ(kNf4.countBlocks(64), 1);
  EXPECT_EQ(kNf4.countBlocks(65), 2);
  BlockForm coded{BlockKind::Nf4, 64, true};
  EXPECT_EQ(coded.countRows(16384), 1);
  EXPECT_EQ(coded.countRows(16385), 2);
}

TEST(QuantizedBlocks, FormsHaveNames) {
  EXPECT_EQ(getName(kNf4), "nf4");
  EXPECT_EQ(getName(BlockForm{BlockKind::Fp4, 128}), "fp4-128");
  EXPECT_EQ(getName(BlockForm{BlockKind::Nf4, 64, true}), "nf4-double");
  EXPECT_EQ(getName(BlockForm{BlockKind::Int8, 32, true}), "int8-32-double");
}

TEST(QuantizedBlocks, AreOfPowersOfTwo) {
  for (const BlockForm &form : listForms())
    EXPECT_TRUE(form.isValid()) << getName(form);
  for (int64_t size : {0, 1, 16, 63, 96, 8192, -64})
    EXPECT_FALSE((BlockForm{BlockKind::Nf4, size}.isValid())) << size;
  EXPECT_FALSE((BlockForm{BlockKind(3), 64}.isValid()));
}

TEST(QuantizedBlocks, KeepAll16NumbersOfNf4) {
  std::vector<float> values;
  for (float value : kNf4Numbers)
    values.push_back(3 * value);
  Bytes bytes = quantize(kNf4, values);
  EXPECT_EQ(scaleOf(bytes), 3);
  // The first of two in the upper half.
  for (size_t i = 0; i < 8; ++i)
    EXPECT_EQ(bytes[4 + i], (2 * i) << 4 | (2 * i + 1));
  std::vector<float> again = read(kNf4, bytes);
  for (size_t i = 0; i < values.size(); ++i)
    EXPECT_EQ(again[i], values[i]);
  for (size_t i = values.size(); i < again.size(); ++i)
    EXPECT_EQ(again[i], 0);
}

TEST(QuantizedBlocks, KeepAllNumbersOfFp4) {
  // By code, as bitsandbytes has them.
  const float numbers[] = {0,           0.0052083333f, 0.66666667f, 1,
                           0.33333333f, 0.5f,          0.16666667f, 0.25f};
  std::vector<float> values;
  for (int i = 0; i < 16; ++i) {
    float number = i < 8 ? numbers[i] : -numbers[i - 8];
    EXPECT_EQ(kFp4Numbers[static_cast<size_t>(i)], number) << i;
    values.push_back(2 * number);
  }
  Bytes bytes = quantize(kFp4, values);
  EXPECT_EQ(scaleOf(bytes), 2);
  for (size_t i = 0; i < 8; ++i) // -0 is no number below zero
    EXPECT_EQ(bytes[4 + i], i == 4 ? 0x09 : (2 * i) << 4 | (2 * i + 1)) << i;
  std::vector<float> again = read(kFp4, bytes);
  for (size_t i = 0; i < values.size(); ++i)
    EXPECT_EQ(again[i], values[i]);
}

TEST(QuantizedBlocks, GiveTiesToTheLowerNumberOfNf4) {
  const auto &numbers = kNf4Numbers;
  for (size_t code = 0; code + 1 < numbers.size(); ++code) {
    auto middle = static_cast<float>(
        (static_cast<double>(numbers[code]) + numbers[code + 1]) / 2);
    std::vector<float> values(64, 0.0f);
    values[0] = -1;
    values[1] = middle;
    values[2] = std::nextafter(middle, 2.0f);
    std::vector<float> again = read(kNf4, quantize(kNf4, values));
    EXPECT_EQ(again[1], numbers[code]);
    EXPECT_EQ(again[2], numbers[code + 1]);
  }
}

TEST(QuantizedBlocks, GiveTiesToTheSmallerMagnitudeOfFp4) {
  std::vector<float> numbers(kFp4Numbers.begin(), kFp4Numbers.begin() + 8);
  std::ranges::sort(numbers);
  for (size_t i = 0; i + 1 < numbers.size(); ++i)
    for (float sign : {1.0f, -1.0f}) {
      auto middle = static_cast<float>(
          (static_cast<double>(numbers[i]) + numbers[i + 1]) / 2);
      std::vector<float> again =
          read(kFp4, quantize(kFp4, {1.0f, sign * middle,
                                     sign * std::nextafter(middle, 2.0f)}));
      EXPECT_EQ(again[1], sign * numbers[i]);
      EXPECT_EQ(again[2], sign * numbers[i + 1]);
    }
}

TEST(QuantizedBlocks, RoundInt8ToEven) {
  std::vector<float> values(64, 0.0f);
  values[0] = -127;
  for (int i = 1; i < 64; ++i)
    values[static_cast<size_t>(i)] = static_cast<float>(i) - 0.5f;
  Bytes bytes = quantize(kInt8, values);
  EXPECT_EQ(scaleOf(bytes), 1);
  EXPECT_EQ(bytes[4], 0x81);
  std::vector<float> again = read(kInt8, bytes);
  EXPECT_EQ(again[0], -127);
  for (int i = 1; i < 64; ++i) {
    auto at = static_cast<size_t>(i);
    EXPECT_EQ(again[at], std::nearbyint(values[at]));
    EXPECT_EQ(static_cast<int>(again[at]) % 2, 0);
  }
}

TEST(QuantizedBlocks, ZerosHaveTheScale0) {
  for (const BlockForm &form : listForms()) {
    Bytes bytes = quantize(form, {0.0f, -0.0f, 0.0f});
    EXPECT_EQ(scaleOf(bytes), 0);
    for (float value : read(form, bytes))
      EXPECT_EQ(value, 0);
  }
}

TEST(QuantizedBlocks, NumbersThatAreNotNormalStayFinite) {
  float least = std::numeric_limits<float>::denorm_min();
  for (const BlockForm &form : {kNf4, kFp4, kInt8})
    for (float greatest : {least, 100 * least, 1e-40f})
      for (float value : read(form, quantize(form, {greatest, -greatest}))) {
        EXPECT_TRUE(std::isfinite(value));
        EXPECT_LE(std::abs(value), 2 * greatest);
      }
}

TEST(QuantizedBlocks, RefuseWhatIsNotFinite) {
  for (const BlockForm &form :
       {kNf4, kFp4, kInt8, BlockForm{BlockKind::Nf4, 32, true},
        BlockForm{BlockKind::Int8, 128}})
    for (float bad : {std::numeric_limits<float>::infinity(),
                      -std::numeric_limits<float>::infinity(),
                      std::numeric_limits<float>::quiet_NaN()})
      for (int64_t at : {0, 63, 64, 99}) {
        std::vector<float> values(100, 1.0f);
        values[static_cast<size_t>(at)] = bad;
        Bytes bytes(
            static_cast<size_t>(form.countRows(100) * form.getRowBytes()));
        EXPECT_EQ(quantizeBlocks(form, values.data(), 100, 0, bytes.data()),
                  at);
      }
}

TEST(QuantizedBlocks, RowsDoNotKnowOfEachOther) {
  for (const BlockForm &form : listForms()) {
    if (form.getRowElements() > 1 << 14)
      continue;
    auto row = static_cast<size_t>(form.getRowElements());
    for (size_t count : {size_t(1), row - 1, row, row + 1, 2 * row + 2}) {
      std::vector<float> values = draw(count);
      float offset = meanOf(form, values);
      Bytes whole = quantize(form, values, offset), parts;
      for (size_t begin = 0; begin < count; begin += row) {
        Bytes part =
            quantize(form,
                     {values.begin() + static_cast<std::ptrdiff_t>(begin),
                      values.begin() + static_cast<std::ptrdiff_t>(
                                           std::min(begin + row, count))},
                     offset);
        parts.insert(parts.end(), part.begin(), part.end());
      }
      EXPECT_EQ(whole, parts) << getName(form) << ", " << count;
    }
  }
}

TEST(QuantizedBlocks, AnyBlocksCanBeRead) {
  for (const BlockForm &form : {kNf4, BlockForm{BlockKind::Int8, 32, true}}) {
    std::vector<float> values = draw(600 * static_cast<size_t>(form.elements));
    Bytes bytes = quantize(form, values, meanOf(form, values));
    std::vector<float> whole = read(form, bytes);
    for (int64_t first : {0, 1, 255, 256, 300}) {
      std::vector<float> some(static_cast<size_t>(260 * form.elements));
      dequantizeBlocks(form, bytes.data(), first, 260, some.data());
      EXPECT_TRUE(std::equal(some.begin(), some.end(),
                             whole.begin() + first * form.elements));
    }
  }
}

TEST(QuantizedBlocks, AreOfTheNearestNumbers) {
  std::vector<float> values = draw(6400);
  for (const BlockForm &form : {kNf4, kFp4, kInt8}) {
    std::vector<float> again = read(form, quantize(form, values));
    for (size_t i = 0; i < values.size(); ++i) {
      size_t begin = i / 64 * 64;
      float greatest = 0;
      for (size_t k = begin; k < begin + 64; ++k)
        greatest = std::max(greatest, std::abs(values[k]));
      float error = std::abs(again[i] - values[i]);
      if (form.kind == BlockKind::Int8) {
        EXPECT_LE(error, greatest / 127 * 0.5001f);
        continue;
      }
      float least = std::numeric_limits<float>::infinity();
      for (float number : getNumbers(form.kind))
        least = std::min(least, std::abs(number * greatest - values[i]));
      EXPECT_LE(error, least + 1e-8f);
    }
  }
}

//===----------------------------------------------------------------------===//
// Coded scales
//===----------------------------------------------------------------------===//

TEST(QuantizedBlocks, ScalesHaveTheDynamicMap) {
  EXPECT_EQ(kScaleNumbers[kZeroScale], 0);
  EXPECT_EQ(kScaleNumbers[255], 1);
  EXPECT_EQ(kScaleNumbers[128], 5.500000384017767e-07f);
  // As PyTorch rounds them.
  EXPECT_EQ(kScaleNumbers[0], -0.992968738079071f);
  EXPECT_EQ(kScaleNumbers[20], -0.7117187976837158f);
  EXPECT_EQ(kScaleNumbers[34], -0.5148437023162842f);
  EXPECT_EQ(kScaleNumbers[36], -0.48671871423721313f);
  EXPECT_TRUE(std::ranges::is_sorted(kScaleNumbers));
}

TEST(QuantizedBlocks, CodedScalesAreTheNearestToThoseThatAreNot) {
  BlockForm plain{BlockKind::Nf4, 64}, coded{BlockKind::Nf4, 64, true};
  std::vector<float> values = draw(64 * 300 + 5);
  float offset = meanOf(coded, values);
  Bytes scales = quantize(plain, values),
        rows = quantize(coded, values, offset);
  double sum = 0;
  for (size_t i = 0; i < 301; ++i)
    sum += static_cast<double>(floatAt(scales, 36 * i));
  EXPECT_EQ(offset, static_cast<float>(sum / 301));
  auto bytes = static_cast<size_t>(coded.getRowBytes());
  for (size_t i = 0; i < 301; ++i) {
    size_t row = i / 256 * bytes, block = i % 256;
    EXPECT_EQ(floatAt(rows, row + 4), offset);
    float shared = floatAt(rows, row), scale = floatAt(scales, 36 * i);
    float found = kScaleNumbers[rows[row + 8 + block]] * shared + offset;
    float least = std::numeric_limits<float>::infinity();
    for (float number : kScaleNumbers)
      least = std::min(least, std::abs(number * shared + offset - scale));
    EXPECT_LE(std::abs(found - scale), least + 1e-8f);
    // Codes are those of the scale as it was.
    EXPECT_EQ(
        std::memcmp(&rows[row + 8 + 256 + 32 * block], &scales[36 * i + 4], 32),
        0);
  }
  // What lies behind the tensor.
  for (size_t block = 301 - 256; block < 256; ++block)
    EXPECT_EQ(rows[bytes + 8 + block], kZeroScale);
}

TEST(QuantizedBlocks, OneCodedScaleIsWhatItWas) {
  BlockForm coded{BlockKind::Fp4, 128, true};
  std::vector<float> values = draw(100);
  Bytes rows = quantize(coded, values, meanOf(coded, values));
  Bytes plain = quantize({BlockKind::Fp4, 128}, values);
  std::vector<float> found = read(coded, rows),
                     expected = read({BlockKind::Fp4, 128}, plain);
  for (size_t i = 0; i < values.size(); ++i)
    EXPECT_EQ(found[i], expected[i]);
}

//===----------------------------------------------------------------------===//
// Rounding
//===----------------------------------------------------------------------===//

TEST(BlockNumbers, RoundToTheNearestHalf) {
  auto widen = [](uint16_t half) {
    int exponent = half >> 10 & 31, digits = half & 1023;
    float magnitude =
        exponent == 0
            ? std::ldexp(static_cast<float>(digits), -24)
            : std::ldexp(static_cast<float>(1024 + digits), exponent - 25);
    return half & 0x8000 ? -magnitude : magnitude;
  };
  for (uint16_t half = 0; half < 0x7c00; ++half)
    for (int sign : {0, 0x8000}) {
      auto bits = static_cast<uint16_t>(half | sign);
      float value = widen(bits),
            next = widen(static_cast<uint16_t>(bits + 1)); // 65536 at the end
      auto above = static_cast<uint16_t>(bits + 1);
      float middle = (value + next) / 2;
      EXPECT_EQ(blocks::roundToHalf(value), bits);
      EXPECT_EQ(blocks::roundToHalf(std::nextafter(middle, value)), bits);
      EXPECT_EQ(blocks::roundToHalf(middle), half % 2 == 0 ? bits : above);
      EXPECT_EQ(blocks::roundToHalf(std::nextafter(middle, next)), above);
    }
  float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(blocks::roundToHalf(1e30f), 0x7c00);
  EXPECT_EQ(blocks::roundToHalf(-infinity), 0xfc00);
  EXPECT_EQ(blocks::roundToHalf(blocks::decode(infinity, 0)), 0x7e00);
}

TEST(BlockNumbers, RoundToTheNearestBFloat16) {
  for (uint32_t upper = 0; upper < 0x7f80; ++upper)
    for (uint32_t sign : {0u, 0x8000u}) {
      uint32_t bits = (upper | sign) << 16;
      auto round = [](uint32_t of) {
        return element::toBf16(std::bit_cast<float>(of));
      };
      EXPECT_EQ(round(bits), bits >> 16);
      EXPECT_EQ(round(bits + 0x7fff), bits >> 16);
      EXPECT_EQ(round(bits + 0x8000), (bits >> 16) + upper % 2);
      EXPECT_EQ(round(bits + 0x8001), (bits >> 16) + 1);
    }
  float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(element::toBf16(-infinity), 0xff80);
  EXPECT_EQ(element::toBf16(blocks::decode(infinity, 0)), 0x7fc0);
  EXPECT_EQ(std::bit_cast<uint32_t>(blocks::decode(-infinity, 0)), 0x7fc00000u);
}

} // namespace
