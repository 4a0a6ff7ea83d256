//===- BlockStorage.cpp - A block as it is stored -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/optimize/BlockStorage.h"

#include "support/Vectorized.h"

#include <algorithm>
#include <bit>
#include <cstring>

using namespace fsdp;

Form fsdp::formOf(const at::Tensor &tensor, bool isSigned) {
  switch (tensor.scalar_type()) {
  case c10::ScalarType::Float:
    return Form::f32;
  case c10::ScalarType::BFloat16:
    return Form::bf16;
  case c10::ScalarType::Half:
    return Form::f16;
  case c10::ScalarType::Byte:
    return isSigned ? Form::dynamicSigned : Form::dynamicUnsigned;
  case c10::ScalarType::Float8_e4m3fn:
    return Form::float8;
  default:
    TORCH_CHECK(false, "updates in blocks store f32, f16, bf16 and codes, not ",
                tensor.scalar_type());
  }
}

bool fsdp::isCode(Form form) {
  return form != Form::f32 && form != Form::bf16 && form != Form::f16;
}

int64_t fsdp::bytesOf(Form form) {
  return form == Form::f32 ? 4 : isCode(form) ? 1 : 2;
}

// Bytes become numbers of 32 bits first: vector units read tables by these.
FSDP_VECTORIZED
void readTable(const float *__restrict table, const uint8_t *__restrict from,
               int count, float scale, float *__restrict to) {
  alignas(64) int32_t codes[kMost];
  for (int i = 0; i < count; ++i)
    codes[i] = from[i];
  for (int i = 0; i < count; ++i)
    to[i] = table[codes[i]] * scale;
}

FSDP_VECTORIZED
void readBf16(const uint16_t *from, int count, float *to) {
  for (int i = 0; i < count; ++i)
    to[i] = std::bit_cast<float>(uint32_t(from[i]) << 16);
}

void fsdp::readBlock(Form form, const char *from, int count, float scale,
                     float *to) {
  switch (form) {
  case Form::f32:
    std::memcpy(to, from, sizeof(float) * static_cast<size_t>(count));
    return;
  case Form::bf16:
    return readBf16(reinterpret_cast<const uint16_t *>(from), count, to);
  case Form::f16:
    for (int i = 0; i < count; ++i)
      to[i] = reinterpret_cast<const c10::Half *>(from)[i];
    return;
  case Form::dynamicSigned:
  case Form::dynamicUnsigned:
    return readTable(getDynamicMap(form == Form::dynamicSigned).values.data(),
                     reinterpret_cast<const uint8_t *>(from), count, scale, to);
  case Form::float8:
    return readTable(getFloat8Values().data(),
                     reinterpret_cast<const uint8_t *>(from), count, scale, to);
  }
}

/// To nearest, ties to even; NaNs stay NaNs.
FSDP_VECTORIZED
void writeBf16(const float *from, int count, uint16_t *to) {
  for (int i = 0; i < count; ++i) {
    auto bits = std::bit_cast<uint32_t>(from[i]);
    uint32_t rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
    to[i] = static_cast<uint16_t>((bits & 0x7FFFFFFF) > 0x7F800000 ? 0x7FC0
                                                                   : rounded);
  }
}

FSDP_VECTORIZED
void writeRounded(const float *from, const uint16_t *random, int count,
                  uint16_t *to) {
  for (int i = 0; i < count; ++i) {
    auto bits = std::bit_cast<uint32_t>(from[i]);
    uint32_t magnitude = bits & 0x7FFFFFFF;
    uint32_t rounded = magnitude < 0x7F800000 ? bits + random[i] : bits;
    to[i] =
        static_cast<uint16_t>(magnitude > 0x7F800000 ? 0x7FC0 : rounded >> 16);
  }
}

/// The nearest codes of numbers that are at most `scale`; of two that are
/// equally near, the one nearer to zero.
FSDP_VECTORIZED
void writeDynamic(const DynamicMap &map, const float *__restrict from,
                  int count, float scale, uint8_t *__restrict to) {
  const int32_t *__restrict cells = map.cells.data();
  const float *__restrict middles = map.middles.data();
  int32_t lastNegative = map.lastNegative;
  alignas(64) int32_t bits[kMost], ranks[kMost];
  for (int i = 0; i < count; ++i)
    bits[i] = std::bit_cast<int32_t>(from[i] / scale);
  for (int i = 0; i < count; ++i) {
    constexpr int32_t kFirst = DynamicMap::kFirstCell,
                      kLast = DynamicMap::kLastCell;
    int32_t cell = (bits[i] & 0x7FFFFFFF) >> 16;
    cell = cell < kFirst ? kFirst : cell > kLast ? kLast : cell;
    ranks[i] = cells[cell - kFirst];
  }
  for (int i = 0; i < count; ++i) {
    auto magnitude = std::bit_cast<float>(bits[i] & 0x7FFFFFFF);
    int32_t rank = ranks[i] + (magnitude > middles[ranks[i]] ? 1 : 0);
    int32_t negative = rank < lastNegative ? rank : lastNegative;
    ranks[i] = bits[i] < 0 ? 256 - negative : rank;
  }
  for (int i = 0; i < count; ++i)
    to[i] = static_cast<uint8_t>(ranks[i]);
}

/// To nearest, ties to even; NaN above 464.
FSDP_VECTORIZED
void writeFloat8(const float *from, int count, float scale, uint8_t *to) {
  for (int i = 0; i < count; ++i) {
    auto bits = std::bit_cast<uint32_t>(from[i] / scale);
    uint32_t magnitude = bits & 0x7FFFFFFF;
    // Below the least normal number the digits end at 2^-9: an addition
    // rounds there.
    constexpr uint32_t kShift = uint32_t(127 + 23 - 9) << 23;
    uint32_t small = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) +
                                             std::bit_cast<float>(kShift)) -
                     kShift;
    uint32_t normal = (magnitude - (uint32_t(127 - 7) << 23) + 0x7FFFF +
                       (magnitude >> 20 & 1)) >>
                      20;
    uint32_t code = magnitude < uint32_t(127 - 6) << 23 ? small : normal;
    code = magnitude > 0x43E80000 ? 0x7F : code;
    to[i] = static_cast<uint8_t>(code | bits >> 31 << 7);
  }
}

void fsdp::writeBlock(Form form, const float *from, int count, float scale,
                      char *to) {
  switch (form) {
  case Form::f32:
    std::memcpy(to, from, sizeof(float) * static_cast<size_t>(count));
    return;
  case Form::bf16:
    return writeBf16(from, count, reinterpret_cast<uint16_t *>(to));
  case Form::f16:
    for (int i = 0; i < count; ++i)
      reinterpret_cast<c10::Half *>(to)[i] = static_cast<c10::Half>(from[i]);
    return;
  case Form::dynamicSigned:
  case Form::dynamicUnsigned:
  case Form::float8:
    break;
  }
  // All of a block is zero.
  if (scale == 0)
    std::memset(to, 0, static_cast<size_t>(count));
  else if (form == Form::float8)
    writeFloat8(from, count, scale, reinterpret_cast<uint8_t *>(to));
  else
    writeDynamic(getDynamicMap(form == Form::dynamicSigned), from, count, scale,
                 reinterpret_cast<uint8_t *>(to));
}

float fsdp::toScale(Form form, float greatest) {
  return form == Form::float8 ? greatest / kGreatestFloat8 : greatest;
}

FSDP_VECTORIZED
uint32_t findBits(const float *from, int count) {
  uint32_t greatest = 0;
  for (int i = 0; i < count; ++i)
    greatest =
        std::max(greatest, std::bit_cast<uint32_t>(from[i]) & 0x7FFFFFFF);
  return greatest;
}

void fsdp::writeBf16AtRandom(const float *from, const uint16_t *random,
                             int count, uint16_t *to) {
  writeRounded(from, random, count, to);
}

uint32_t fsdp::findGreatest(const float *from, int count) {
  return findBits(from, count);
}
