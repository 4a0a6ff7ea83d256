//===- ByteAmount.cpp - Bytes as people write them ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "support/ByteAmount.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <string_view>
#include <utility>

using namespace fsdp;

std::optional<double> fsdp::parseBytes(const std::string &text) {
  static constexpr std::pair<std::string_view, double> units[] = {
      {"", 1},         {"B", 1},       {"kB", 1e3},     {"MB", 1e6},
      {"GB", 1e9},     {"TB", 1e12},   {"KiB", 0x1p10}, {"MiB", 0x1p20},
      {"GiB", 0x1p30}, {"TiB", 0x1p40}};
  char *rest = nullptr;
  double number = std::strtod(text.c_str(), &rest);
  std::string unit(rest);
  unit.erase(0, unit.find_first_not_of(' '));
  const auto *found = std::ranges::find(
      units, unit, &std::pair<std::string_view, double>::first);
  if (rest == text.c_str() || !(number > 0) || !std::isfinite(number) ||
      found == std::end(units))
    return std::nullopt;
  return number * found->second;
}
