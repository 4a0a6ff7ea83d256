//===- NaturalOrder.cpp - Names in the order that people expect -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "support/NaturalOrder.h"

#include <cstddef>
#include <cstdint>
#include <utility>

using namespace fsdp;

/// The number that begins there, and where it ends: there, if none does.
static std::pair<size_t, uint64_t> readNumber(std::string_view text,
                                              size_t at) {
  size_t end = at;
  uint64_t number = 0;
  for (; end < text.size() && end - at < 18 && text[end] >= '0' &&
         text[end] <= '9';
       ++end)
    number = 10 * number + static_cast<uint64_t>(text[end] - '0');
  return {end, number};
}

bool fsdp::isNaturallyLess(std::string_view a, std::string_view b) {
  size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    auto [aEnd, aNumber] = readNumber(a, i);
    auto [bEnd, bNumber] = readNumber(b, j);
    if (aEnd != i && bEnd != j) {
      if (aNumber != bNumber)
        return aNumber < bNumber;
      i = aEnd;
      j = bEnd;
      continue;
    }
    if (a[i] != b[j])
      return a[i] < b[j];
    ++i;
    ++j;
  }
  return a.size() - i != b.size() - j ? a.size() - i < b.size() - j : a < b;
}
