//===- MissingValuesTest.cpp - What is proposed for tensors without value -===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/weights/MissingValues.h"

#include <gtest/gtest.h>

using namespace fsdp;

namespace {

TEST(MissingValues, RulesCoverADecoder) {
  EXPECT_EQ(suggestRules({{"embed.weight", {31, 8}},
                          {"layers.0.norm.weight", {8}},
                          {"layers.0.up.weight", {9, 8}},
                          {"layers.0.up.bias", {9}},
                          {"layers.1.norm.weight", {8}},
                          {"rotary.inv_freq", {4}, false}}),
            "init:\n"
            "  \"*.weight\": normal(0, 0.02)\n"
            "  \"*.norm.weight\": ones\n"
            "  \"*.bias\": zeros\n"
            "  \"*inv_freq\": rope(10000)");
}

TEST(MissingValues, NumbersOfASequenceAreNoPattern) {
  // "*.weight": ones would hit all weights.
  EXPECT_EQ(suggestRules({{"net.2.weight", {8}}, {"gain", {3}}}),
            "init:\n"
            "  \"net.2.weight\": ones\n"
            "  \"gain\": ones");
}

TEST(MissingValues, UnknownBuffersGetNoGuess) {
  EXPECT_EQ(suggestRules({{"net.mask", {8}, false}}), "");
}

TEST(MissingValues, ListsAreShort) {
  EXPECT_EQ(listMissing({{"a", {}}}), "1 tensor ('a')");
  EXPECT_EQ(
      listMissing({{"a", {}}, {"b", {}}, {"c", {}}, {"d", {}}, {"e", {}}}),
      "5 tensors ('a', 'b', 'c', 'd', …)");
}

} // namespace
