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
    to[i] = element::fromBf16(from[i]);
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
    return readTable(getDynamicMap(form == Form::dynamicSigned).values,
                     reinterpret_cast<const uint8_t *>(from), count, scale, to);
  case Form::float8:
    return readTable(getFloat8Map().values,
                     reinterpret_cast<const uint8_t *>(from), count, scale, to);
  }
}

FSDP_VECTORIZED
void writeBf16(const float *from, int count, uint16_t *to) {
  for (int i = 0; i < count; ++i)
    to[i] = element::toBf16(from[i]);
}

FSDP_VECTORIZED
void writeRounded(const float *from, const uint16_t *random, int count,
                  uint16_t *to) {
  for (int i = 0; i < count; ++i)
    to[i] = element::toBf16AtRandom(from[i], random[i]);
}

// In loops of numbers of 32 bits: a loop with several widths is no vector code.
FSDP_VECTORIZED
void writeDynamic(const DynamicMap &map, const float *__restrict from,
                  int count, float scale, uint8_t *__restrict to) {
  const int32_t *__restrict cells = map.cells;
  const float *__restrict middles = map.middles;
  int32_t lastNegative = map.lastNegative;
  alignas(64) int32_t bits[kMost], codes[kMost];
  for (int i = 0; i < count; ++i)
    bits[i] = std::bit_cast<int32_t>(from[i] / scale);
  for (int i = 0; i < count; ++i)
    codes[i] = element::findCell(cells, bits[i]);
  for (int i = 0; i < count; ++i)
    codes[i] = element::toDynamic(middles, lastNegative, bits[i], codes[i]);
  for (int i = 0; i < count; ++i)
    to[i] = static_cast<uint8_t>(codes[i]);
}

FSDP_VECTORIZED
void writeFloat8(const float *from, int count, float scale, uint8_t *to) {
  for (int i = 0; i < count; ++i)
    to[i] = element::toFloat8(from[i] / scale);
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

FSDP_VECTORIZED
uint32_t findBits(const float *from, int count) {
  uint32_t greatest = 0;
  for (int i = 0; i < count; ++i)
    greatest = std::max(greatest, element::magnitudeOf(from[i]));
  return greatest;
}

void fsdp::writeBf16AtRandom(const float *from, const uint16_t *random,
                             int count, uint16_t *to) {
  writeRounded(from, random, count, to);
}

uint32_t fsdp::findGreatest(const float *from, int count) {
  return findBits(from, count);
}
