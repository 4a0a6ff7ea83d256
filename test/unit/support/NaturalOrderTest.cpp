//===- NaturalOrderTest.cpp - Names in the order that people expect -------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "support/NaturalOrder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

using namespace fsdp;

namespace {

TEST(NaturalOrder, NumbersInNamesCountAsNumbers) {
  const std::vector<std::string> ordered = {
      "",          "embed",      "layers.02",   "layers.2",
      "layers.2.", "layers.2.b", "layers.10",   "layers.10.a",
      "layers.a",  "layersz",    "w99999999999"};
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::vector<std::string> names = ordered;
    std::shuffle(names.begin(), names.end(), std::mt19937(seed));
    std::sort(names.begin(), names.end(), isNaturallyLess);
    EXPECT_EQ(names, ordered);
  }
}

TEST(NaturalOrder, IsAStrictOrder) {
  const std::vector<std::string> names = {"a1",  "a01", "a001", "a1b", "a01b",
                                          "a10", "a",   "1",    "01",  "b0"};
  for (const std::string &a : names) {
    EXPECT_FALSE(isNaturallyLess(a, a)) << a;
    for (const std::string &b : names) {
      if (a != b) {
        EXPECT_NE(isNaturallyLess(a, b), isNaturallyLess(b, a))
            << a << " " << b;
      }
      for (const std::string &c : names)
        if (isNaturallyLess(a, b) && isNaturallyLess(b, c)) {
          EXPECT_TRUE(isNaturallyLess(a, c)) << a << " " << b << " " << c;
        }
    }
  }
}

} // namespace
