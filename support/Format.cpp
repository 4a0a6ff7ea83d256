//===- Format.cpp - Quantities as people read them ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "support/Format.h"

#include <charconv>
#include <cstdio>

using namespace fsdp;

std::string fsdp::formatBytes(uint64_t bytes) {
  static constexpr const char *kUnits[] = {"B",   "KiB", "MiB",
                                           "GiB", "TiB", "PiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(kUnits); ++unit)
    value /= 1024;
  char text[32];
  std::snprintf(text, sizeof(text), unit == 0 ? "%.0f %s" : "%.1f %s", value,
                kUnits[unit]);
  return text;
}

std::string fsdp::formatNumber(double number) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof(text), number).ptr};
}

std::string fsdp::formatFixed(double number, int digits) {
  char text[400]; // a double has at most 309 digits in front of the point
  std::snprintf(text, sizeof(text), "%.*f", digits, number);
  return text;
}

std::string fsdp::formatMilliseconds(double seconds) {
  return formatFixed(1e3 * seconds, 3);
}
