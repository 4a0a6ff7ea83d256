//===- QuantizedBlocks.cpp - Frozen numbers in blocks of codes ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "support/QuantizedBlocks.h"

#include "support/Vectorized.h"

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace fsdp;

namespace {

/// QLoRA's appendix E.
constexpr std::array<float, 16> kNf4 = {-1.0f,
                                        -0.6961928009986877f,
                                        -0.5250730514526367f,
                                        -0.39491748809814453f,
                                        -0.28444138169288635f,
                                        -0.18477343022823334f,
                                        -0.09105003625154495f,
                                        0.0f,
                                        0.07958029955625534f,
                                        0.16093020141124725f,
                                        0.24611230194568634f,
                                        0.33791524171829224f,
                                        0.44070982933044434f,
                                        0.5626170039176941f,
                                        0.7229568362236023f,
                                        1.0f};

/// Between codes k and k + 1.
constexpr std::array<float, 15> kNf4Middles = [] {
  std::array<float, 15> middles{};
  for (size_t i = 0; i < middles.size(); ++i)
    middles[i] = static_cast<float>(
        (static_cast<double>(kNf4[i]) + static_cast<double>(kNf4[i + 1])) / 2);
  return middles;
}();

/// By byte: the numbers of both codes.
constexpr std::array<std::array<float, 2>, 256> kNf4Pairs = [] {
  std::array<std::array<float, 2>, 256> pairs{};
  for (size_t byte = 0; byte < pairs.size(); ++byte)
    pairs[byte] = {kNf4[byte >> 4], kNf4[byte & 15]};
  return pairs;
}();

constexpr int64_t kSize = kQuantizedElements;
constexpr float kGreatestInt8 = 127;

FSDP_VECTORIZED void encodeNf4(const float *values, float scale, uint8_t *to) {
  uint8_t codes[kSize];
  for (int64_t i = 0; i < kSize; ++i) {
    float ratio = values[i] / scale;
    int32_t code = 0;
    for (float middle : kNf4Middles)
      code += ratio > middle;
    codes[i] = static_cast<uint8_t>(code);
  }
  for (int64_t i = 0; i < kSize / 2; ++i)
    to[i] = static_cast<uint8_t>(codes[2 * i] << 4 | codes[2 * i + 1]);
}

FSDP_VECTORIZED void encodeInt8(const float *values, float scale, uint8_t *to) {
  for (int64_t i = 0; i < kSize; ++i) {
    float ratio = std::nearbyint(values[i] / scale);
    // A scale that is no normal number may be far from what it was of.
    ratio = std::min(std::max(ratio, -kGreatestInt8), kGreatestInt8);
    to[i] = static_cast<uint8_t>(static_cast<int8_t>(ratio));
  }
}

FSDP_VECTORIZED void decodeNf4(const uint8_t *codes, float scale, float *to) {
  for (int64_t i = 0; i < kSize / 2; ++i)
    std::memcpy(to + 2 * i, kNf4Pairs[codes[i]].data(), 2 * sizeof(float));
  for (int64_t i = 0; i < kSize; ++i)
    to[i] *= scale;
}

FSDP_VECTORIZED void decodeInt8(const uint8_t *codes, float scale, float *to) {
  for (int64_t i = 0; i < kSize; ++i)
    to[i] = static_cast<float>(static_cast<int8_t>(codes[i])) * scale;
}

} // namespace

std::string_view fsdp::getName(BlockKind kind) {
  return kind == BlockKind::Nf4 ? "nf4" : "int8";
}

const std::array<float, 16> &fsdp::getNf4Values() { return kNf4; }

int64_t fsdp::quantizeBlocks(BlockKind kind, const float *from,
                             int64_t elements, uint8_t *to) {
  float block[kSize];
  for (int64_t begin = 0; begin < elements; begin += kSize) {
    int64_t count = std::min(kSize, elements - begin);
    std::copy_n(from + begin, count, block);
    std::fill(block + count, block + kSize, 0.0f);
    float greatest = 0;
    bool isFinite = true;
    for (float value : block) {
      isFinite &= std::isfinite(value);
      greatest = std::max(greatest, std::abs(value));
    }
    if (!isFinite)
      return begin + (std::find_if_not(
                          block, block + kSize,
                          [](float value) { return std::isfinite(value); }) -
                      block);
    float scale = kind == BlockKind::Nf4 ? greatest : greatest / kGreatestInt8;
    std::memcpy(to, &scale, sizeof(scale));
    to += sizeof(scale);
    // Of zeros, all of which have the code of zero.
    float divisor = scale == 0 ? 1 : scale;
    if (scale == 0)
      std::fill(block, block + kSize, 0.0f);
    if (kind == BlockKind::Nf4)
      encodeNf4(block, divisor, to);
    else
      encodeInt8(block, divisor, to);
    to += getBlockBytes(kind) - int64_t(sizeof(scale));
  }
  return -1;
}

void fsdp::dequantizeBlocks(BlockKind kind, const uint8_t *from, int64_t blocks,
                            float *to) {
  for (int64_t i = 0; i < blocks; ++i) {
    float scale;
    std::memcpy(&scale, from, sizeof(scale));
    if (kind == BlockKind::Nf4)
      decodeNf4(from + sizeof(scale), scale, to);
    else
      decodeInt8(from + sizeof(scale), scale, to);
    from += getBlockBytes(kind);
    to += kSize;
  }
}
