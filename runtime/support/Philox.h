//===- Philox.h - Counter-based random numbers ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Philox4x32-10 of Salmon, Moraes, Dror and Shaw, "Parallel Random Numbers: As
// Easy as 1, 2, 3" (SC'11). A number is a pure function of a key and a counter:
// nothing is advanced, so any part of a sequence can be drawn by anyone, in any
// order, again and again. Draws of a training step and the first values of
// parameters both come from here; `Domain` keeps their sequences apart.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_SUPPORT_PHILOX_H
#define FSDP_RUNTIME_SUPPORT_PHILOX_H

#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>

namespace fsdp::philox {

/// Four numbers of 32 random bits, or a counter.
using Block = std::array<uint32_t, 4>;
using Key = std::array<uint32_t, 2>;

/// What numbers are drawn for.
enum class Domain : uint32_t {
  Step = 1, ///< random operators of a program
  Init = 2, ///< first values of parameters
  Rows = 3, ///< order of the data's rows
};

/// The block at `counter` of the sequence that `key` names.
inline Block generate(Block counter, Key key) {
  constexpr uint32_t multiplier0 = 0xD2511F53, multiplier1 = 0xCD9E8D57;
  constexpr uint32_t weyl0 = 0x9E3779B9, weyl1 = 0xBB67AE85;
  for (int round = 0; round < 10; ++round) {
    uint64_t product0 = uint64_t(multiplier0) * counter[0];
    uint64_t product1 = uint64_t(multiplier1) * counter[2];
    counter = {
        uint32_t(product1 >> 32) ^ counter[1] ^ key[0], uint32_t(product1),
        uint32_t(product0 >> 32) ^ counter[3] ^ key[1], uint32_t(product0)};
    key[0] += weyl0;
    key[1] += weyl1;
  }
  return counter;
}

/// A key for one use of the user's seed. `stream` tells sequences of one domain
/// apart: the rank for Domain::Step, the epoch for Domain::Rows, 0 for
/// Domain::Init.
inline Key deriveKey(uint64_t seed, Domain domain, uint64_t stream) {
  Block block =
      generate({uint32_t(stream), uint32_t(stream >> 32), uint32_t(domain), 0},
               {uint32_t(seed), uint32_t(seed >> 32)});
  return {block[0], block[1]};
}

/// Uniform in [0, 1), in steps of 2^-24: all values are exact floats.
inline float toUniform(uint32_t bits) { return (bits >> 8) * 0x1p-24f; }

/// Uniform in [0, 1), in steps of 2^-53.
inline double toUniform(uint32_t high, uint32_t low) {
  return ((uint64_t(high) << 32 | low) >> 11) * 0x1p-53;
}

/// Two independent standard normals out of two numbers (Box and Muller).
inline std::array<float, 2> toNormals(uint32_t a, uint32_t b) {
  // In (0, 1]: the logarithm must be finite.
  float radius = std::sqrt(-2 * std::log((a >> 8) * 0x1p-24f + 0x1p-24f));
  float angle = 2 * std::numbers::pi_v<float> * toUniform(b);
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

} // namespace fsdp::philox

#endif // FSDP_RUNTIME_SUPPORT_PHILOX_H
