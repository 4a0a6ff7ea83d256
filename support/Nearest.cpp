//===- Nearest.cpp - The nearest name to a misspelt one -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "support/Nearest.h"

#include <algorithm>
#include <cctype>
#include <numeric>
#include <vector>

static size_t getDistance(std::string_view a, std::string_view b) {
  auto lower = [](char c) {
    return std::tolower(static_cast<unsigned char>(c));
  };
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      size_t replaced = diagonal + (lower(a[i]) != lower(b[j]));
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

std::string_view
fsdp::findNearest(std::string_view name,
                  std::span<const std::string_view> candidates) {
  // Two letters in five may be wrong, and two in a short word.
  size_t best = std::max<size_t>(2, name.size() * 2 / 5) + 1;
  std::string_view nearest;
  for (std::string_view candidate : candidates)
    if (size_t distance = getDistance(name, candidate);
        distance < best && distance < candidate.size()) {
      best = distance;
      nearest = candidate;
    }
  return nearest;
}
