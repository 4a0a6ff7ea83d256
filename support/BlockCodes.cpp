//===- BlockCodes.cpp - Numbers of 8 bits that share a scale --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "support/BlockCodes.h"

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

using namespace fsdp;

/// Ascending, from 0 to 1. A decade has the middles of equal parts of the range
/// from a tenth of its end to its end.
static std::vector<float> listMagnitudes(bool isSigned) {
  constexpr int kDecades = 7;
  std::vector<float> magnitudes{0};
  for (int i = 0; i < kDecades; ++i) {
    int steps = 1 << (isSigned ? i : i + 1);
    double end = std::pow(10.0, i - (kDecades - 1));
    for (int step = 0; step < steps; ++step)
      magnitudes.push_back(
          static_cast<float>(end * (0.1 + 0.9 * (step + 0.5) / steps)));
  }
  magnitudes.push_back(1);
  return magnitudes;
}

static DynamicMap makeMap(bool isSigned) {
  std::vector<float> magnitudes = listMagnitudes(isSigned);
  DynamicMap map{};
  auto ranks = static_cast<int32_t>(magnitudes.size());
  map.lastNegative = isSigned ? ranks - 2 : 0;
  for (int32_t rank = 0; rank < ranks; ++rank)
    map.values[static_cast<size_t>(rank)] =
        magnitudes[static_cast<size_t>(rank)];
  for (int32_t rank = 1; rank <= map.lastNegative; ++rank)
    map.values[static_cast<size_t>(256 - rank)] =
        -magnitudes[static_cast<size_t>(rank)];
  map.middles.fill(std::numeric_limits<float>::infinity());
  for (size_t rank = 0; rank + 1 < magnitudes.size(); ++rank)
    map.middles[rank] = (magnitudes[rank] + magnitudes[rank + 1]) / 2;
  for (size_t i = 0; i < map.cells.size(); ++i) {
    auto begin = std::bit_cast<float>(
        (DynamicMap::kFirstCell + static_cast<uint32_t>(i)) << 16);
    int32_t rank = 0;
    // The first cell has all that is smaller, too.
    while (i != 0 && begin > map.middles[static_cast<size_t>(rank)])
      ++rank;
    map.cells[i] = rank;
  }
  return map;
}

const DynamicMap &fsdp::getDynamicMap(bool isSigned) {
  static const DynamicMap withSign = makeMap(true), without = makeMap(false);
  return isSigned ? withSign : without;
}

const std::array<float, 256> &fsdp::getFloat8Values() {
  static const std::array<float, 256> values = [] {
    std::array<float, 256> all{};
    for (int byte = 0; byte < 256; ++byte) {
      int exponent = byte >> 3 & 15, digits = byte & 7;
      float magnitude =
          exponent == 0 ? std::ldexp(static_cast<float>(digits), -9)
          : exponent == 15 && digits == 7
              ? std::numeric_limits<float>::quiet_NaN()
              : std::ldexp(static_cast<float>(8 + digits), exponent - 10);
      all[static_cast<size_t>(byte)] = byte & 0x80 ? -magnitude : magnitude;
    }
    return all;
  }();
  return values;
}
