//===- PhiloxTest.cpp - Counter-based random numbers ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "support/Philox.h"

#include <gtest/gtest.h>

using namespace fsdp::philox;

namespace {

// The known answers that the paper's authors publish with Random123.
TEST(Philox, EqualsThePublishedAnswers) {
  EXPECT_EQ(generate({0, 0, 0, 0}, {0, 0}),
            (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(generate({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}),
            (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(generate({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                     {0xa4093822, 0x299f31d0}),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, UniformStaysBelowOne) {
  EXPECT_EQ(toUniform(0), 0.0f);
  EXPECT_LT(toUniform(~0u), 1.0f);
  EXPECT_EQ(toUniform(0, 0), 0.0);
  EXPECT_LT(toUniform(~0u, ~0u), 1.0);
}

TEST(Philox, NormalsAreFiniteAtTheEnds) {
  for (uint32_t bits : {0u, 1u, 255u, 256u, ~0u})
    for (float value : toNormals(bits, bits))
      EXPECT_TRUE(std::isfinite(value)) << bits;
}

TEST(Philox, NormalsHaveTheRightMoments) {
  constexpr int count = 1 << 18;
  double sum = 0, squares = 0, fourth = 0;
  Key key = deriveKey(7, Domain::Init, 0);
  for (uint32_t i = 0; i < count / 4; ++i) {
    Block block = generate({i, 0, 0, 0}, key);
    for (int pair : {0, 2})
      for (double value : toNormals(block[pair], block[pair + 1])) {
        sum += value;
        squares += value * value;
        fourth += value * value * value * value;
      }
  }
  // Five standard errors of each moment.
  EXPECT_NEAR(sum / count, 0, 5 / std::sqrt(count));
  EXPECT_NEAR(squares / count, 1, 5 * std::sqrt(2.0 / count));
  EXPECT_NEAR(fourth / count, 3, 5 * std::sqrt(96.0 / count));
}

TEST(Philox, KeysDifferByDomainStreamAndSeed) {
  Key key = deriveKey(1, Domain::Step, 0);
  EXPECT_NE(key, deriveKey(1, Domain::Init, 0));
  EXPECT_NE(key, deriveKey(1, Domain::Step, 1));
  EXPECT_NE(key, deriveKey(2, Domain::Step, 0));
  EXPECT_EQ(key, deriveKey(1, Domain::Step, 0));
}

} // namespace
