//===- QuantizedBlocks.cpp - Frozen numbers in blocks of codes ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "support/QuantizedBlocks.h"

#include "support/BlockNumbers.h"
#include "support/Vectorized.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <vector>

using namespace fsdp;

namespace {

template <size_t count>
constexpr std::array<float, count - 1>
findMiddles(const std::array<float, count> &ascending) {
  std::array<float, count - 1> middles{};
  for (size_t i = 0; i < middles.size(); ++i)
    middles[i] = static_cast<float>((static_cast<double>(ascending[i]) +
                                     static_cast<double>(ascending[i + 1])) /
                                    2);
  return middles;
}

/// Codes of fp4 by magnitude, ascending.
constexpr std::array<uint8_t, 8> kFp4Codes = {0, 1, 6, 7, 4, 5, 2, 3};

/// Between one number and the next.
constexpr auto kNf4Middles = findMiddles(kNf4Numbers);
constexpr auto kScaleMiddles = findMiddles(kScaleNumbers);
constexpr auto kFp4Middles = [] {
  std::array<float, 8> magnitudes{};
  for (size_t i = 0; i < 8; ++i)
    magnitudes[i] = kFp4Numbers[kFp4Codes[i]];
  return findMiddles(magnitudes);
}();

/// By byte: the numbers of both codes.
using Pairs = std::array<std::array<float, 2>, 256>;
constexpr Pairs makePairs(const std::array<float, 16> &numbers) {
  Pairs pairs{};
  for (size_t byte = 0; byte < pairs.size(); ++byte)
    pairs[byte] = {numbers[byte >> 4], numbers[byte & 15]};
  return pairs;
}
constexpr Pairs kNf4Pairs = makePairs(kNf4Numbers);
constexpr Pairs kFp4Pairs = makePairs(kFp4Numbers);

constexpr float kGreatestInt8 = 127;

/// Elements of which every block has a multiple.
constexpr int64_t kPiece = BlockForm::kLeast;

void pack(const uint8_t *codes, uint8_t *to) {
  for (int64_t i = 0; i < kPiece / 2; ++i)
    to[i] = static_cast<uint8_t>(codes[2 * i] << 4 | codes[2 * i + 1]);
}

FSDP_VECTORIZED void encodeNf4(const float *values, int64_t count, float scale,
                               uint8_t *to) {
  for (int64_t at = 0; at < count; at += kPiece) {
    uint8_t codes[kPiece];
    for (int64_t i = 0; i < kPiece; ++i) {
      float ratio = values[at + i] / scale;
      int32_t code = 0;
      for (float middle : kNf4Middles)
        code += ratio > middle;
      codes[i] = static_cast<uint8_t>(code);
    }
    pack(codes, to + at / 2);
  }
}

FSDP_VECTORIZED void encodeFp4(const float *values, int64_t count, float scale,
                               uint8_t *to) {
  for (int64_t at = 0; at < count; at += kPiece) {
    uint8_t codes[kPiece];
    for (int64_t i = 0; i < kPiece; ++i) {
      float ratio = values[at + i] / scale;
      int32_t rank = 0;
      for (float middle : kFp4Middles)
        rank += std::abs(ratio) > middle;
      codes[i] = static_cast<uint8_t>(kFp4Codes[static_cast<size_t>(rank)] |
                                      (ratio < 0 ? 8 : 0));
    }
    pack(codes, to + at / 2);
  }
}

FSDP_VECTORIZED void encodeInt8(const float *values, int64_t count, float scale,
                                uint8_t *to) {
  for (int64_t i = 0; i < count; ++i) {
    float ratio = std::nearbyint(values[i] / scale);
    // A scale that is no normal number may be far from what it was of.
    ratio = std::min(std::max(ratio, -kGreatestInt8), kGreatestInt8);
    to[i] = static_cast<uint8_t>(static_cast<int8_t>(ratio));
  }
}

/// All numbers first: a processor waits where it reads what it has just stored
/// in smaller parts.
FSDP_VECTORIZED void decodePairs(const Pairs &pairs, const uint8_t *codes,
                                 int64_t count, float scale, float *to) {
  for (int64_t i = 0; i < count / 2; ++i)
    std::memcpy(to + 2 * i, pairs[codes[i]].data(), 2 * sizeof(float));
  for (int64_t i = 0; i < count; ++i)
    to[i] = blocks::decode(to[i], scale);
}

FSDP_VECTORIZED void decodeInt8(const uint8_t *codes, int64_t count,
                                float scale, float *to) {
  for (int64_t i = 0; i < count; ++i)
    to[i] = blocks::decode(static_cast<float>(static_cast<int8_t>(codes[i])),
                           scale);
}

/// NaN if an element is none that has a code.
FSDP_VECTORIZED float findGreatest(const float *values, int64_t count) {
  float greatest = 0;
  bool isFinite = true;
  for (int64_t i = 0; i < count; ++i) {
    isFinite &= std::isfinite(values[i]);
    greatest = std::max(greatest, std::abs(values[i]));
  }
  return isFinite ? greatest : std::nanf("");
}

float toScale(BlockKind kind, float greatest) {
  return kind == BlockKind::Int8 ? greatest / kGreatestInt8 : greatest;
}

/// A whole block. Of zeros, all of which have the code of zero, and of what has
/// no scale, nothing is divided.
void encode(BlockKind kind, const float *values, int64_t count, float scale,
            uint8_t *to) {
  if (scale == 0)
    std::memset(to, kind == BlockKind::Nf4 ? kZeroNf4 << 4 | kZeroNf4 : 0,
                static_cast<size_t>(BlockForm{kind, count}.getCodeBytes()));
  else if (kind == BlockKind::Nf4)
    encodeNf4(values, count, scale, to);
  else if (kind == BlockKind::Fp4)
    encodeFp4(values, count, scale, to);
  else
    encodeInt8(values, count, scale, to);
}

void decode(BlockKind kind, const uint8_t *codes, int64_t count, float scale,
            float *to) {
  if (kind == BlockKind::Int8)
    decodeInt8(codes, count, scale, to);
  else
    decodePairs(kind == BlockKind::Nf4 ? kNf4Pairs : kFp4Pairs, codes, count,
                scale, to);
}

/// The head of a row of coded scales.
void encodeScales(const float *scales, int64_t count, float offset,
                  uint8_t *to) {
  float shared = 0;
  for (int64_t i = 0; i < count; ++i)
    shared = std::max(shared, std::abs(scales[i] - offset));
  std::memcpy(to, &shared, sizeof(shared));
  std::memcpy(to + sizeof(shared), &offset, sizeof(offset));
  uint8_t *codes = to + 2 * sizeof(float);
  std::memset(codes, kZeroScale, BlockForm::kTogether);
  for (int64_t i = 0; shared != 0 && i < count; ++i)
    codes[i] = static_cast<uint8_t>(
        std::ranges::lower_bound(kScaleMiddles, (scales[i] - offset) / shared) -
        kScaleMiddles.begin());
}

float readScale(const BlockForm &form, const uint8_t *row, int64_t block) {
  float scale, offset;
  std::memcpy(&scale, row, sizeof(scale));
  if (!form.hasCodedScales)
    return scale;
  std::memcpy(&offset, row + sizeof(scale), sizeof(offset));
  uint8_t code = *(row + 2 * sizeof(float) + block);
  return blocks::decodeScale(kScaleNumbers[code], scale, offset);
}

} // namespace

std::string_view fsdp::getName(BlockKind kind) {
  constexpr std::string_view names[] = {"nf4", "int8", "fp4"};
  return names[static_cast<size_t>(kind)];
}

std::string fsdp::getName(const BlockForm &form) {
  std::string name(getName(form.kind));
  if (form.elements != BlockForm::kUsual)
    name += "-" + std::to_string(form.elements);
  return form.hasCodedScales ? name + "-double" : name;
}

void ScaleMean::add(const float *from, int64_t elements) {
  for (int64_t at = 0; at < elements; at += form.elements, ++count)
    sum += toScale(form.kind, findGreatest(from + at, std::min(form.elements,
                                                               elements - at)));
}

float ScaleMean::get() const {
  return count == 0 ? 0 : static_cast<float>(sum / static_cast<double>(count));
}

int64_t fsdp::quantizeBlocks(const BlockForm &form, const float *from,
                             int64_t elements, float offset, uint8_t *to) {
  std::vector<float> last(static_cast<size_t>(form.elements));
  for (int64_t row = 0; row < form.countRows(elements); ++row) {
    float scales[BlockForm::kTogether];
    uint8_t *codes = to + form.getHeadBytes();
    int64_t known = 0;
    for (int64_t block = 0; block < form.getRowBlocks();
         ++block, codes += form.getCodeBytes()) {
      int64_t begin = std::min(
          (row * form.getRowBlocks() + block) * form.elements, elements);
      int64_t count = std::min(elements - begin, form.elements);
      const float *values = last.data();
      if (count == form.elements)
        values = from + begin;
      else
        std::fill(std::copy(from + begin, from + begin + count, last.begin()),
                  last.end(), 0.0f);
      float greatest = findGreatest(values, form.elements);
      if (std::isnan(greatest))
        return begin + (std::find_if_not(
                            values, values + count,
                            [](float value) { return std::isfinite(value); }) -
                        values);
      scales[block] = toScale(form.kind, greatest);
      encode(form.kind, values, form.elements, scales[block], codes);
      known += count != 0;
    }
    if (form.hasCodedScales)
      encodeScales(scales, known, offset, to);
    else
      std::memcpy(to, scales, sizeof(float));
    to += form.getRowBytes();
  }
  return -1;
}

void fsdp::dequantizeBlocks(const BlockForm &form, const uint8_t *rows,
                            int64_t first, int64_t count, float *to) {
  for (int64_t i = first; i < first + count; ++i, to += form.elements) {
    const uint8_t *row = rows + i / form.getRowBlocks() * form.getRowBytes();
    int64_t block = i % form.getRowBlocks();
    decode(form.kind, row + form.getHeadBytes() + block * form.getCodeBytes(),
           form.elements, readScale(form, row, block), to);
  }
}
