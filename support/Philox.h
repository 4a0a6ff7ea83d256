//===- Philox.h - Counter-based random numbers ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Philox4x32-10 of Salmon, Moraes, Dror and Shaw, "Parallel Random Numbers: As
// Easy as 1, 2, 3" (SC'11). A number is a pure function of a key and a counter:
// nothing is advanced, so any part of a sequence can be drawn by anyone, in any
// order, again and again. Draws of a training step and the first values of
// parameters both come from here; `Domain` keeps their sequences apart. Host
// and devices share these definitions.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_SUPPORT_PHILOX_H
#define FSDP_SUPPORT_PHILOX_H

#include "support/HostDevice.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>

namespace fsdp::philox {

/// Four numbers of 32 random bits, or a counter.
struct Block {
  uint32_t words[4];

  FSDP_HOST_DEVICE uint32_t operator[](size_t i) const { return words[i]; }
  bool operator==(const Block &) const = default;
};

struct Key {
  uint32_t words[2];

  FSDP_HOST_DEVICE uint32_t operator[](size_t i) const { return words[i]; }
  bool operator==(const Key &) const = default;
};

/// What numbers are drawn for.
enum class Domain : uint32_t {
  Step = 1,     ///< random operators of a program
  Init = 2,     ///< first values of parameters
  Rows = 3,     ///< order of the data's rows
  Rounding = 4, ///< which way new parameters are rounded
  Groups = 5,   ///< order of groups of rows of like length
};

/// The blocks at `lanes` counters of the sequence that `key` names, in place:
/// word w of the i-th is words[w][i]. Inlined, so that whoever makes many gets
/// vector code of its own kind.
template <unsigned lanes>
[[gnu::always_inline]] FSDP_HOST_DEVICE inline void
generateLanes(uint32_t (&words)[4][lanes], Key key) {
  for (int round = 0; round < 10; ++round) {
    for (unsigned i = 0; i < lanes; ++i) {
      uint64_t product0 = uint64_t(0xD2511F53) * words[0][i];
      uint64_t product1 = uint64_t(0xCD9E8D57) * words[2][i];
      words[0][i] = uint32_t(product1 >> 32) ^ words[1][i] ^ key.words[0];
      words[2][i] = uint32_t(product0 >> 32) ^ words[3][i] ^ key.words[1];
      words[1][i] = uint32_t(product1);
      words[3][i] = uint32_t(product0);
    }
    key.words[0] += 0x9E3779B9;
    key.words[1] += 0xBB67AE85;
  }
}

/// The block at `counter`.
FSDP_HOST_DEVICE inline Block generate(Block counter, Key key) {
  uint32_t words[4][1] = {
      {counter[0]}, {counter[1]}, {counter[2]}, {counter[3]}};
  generateLanes(words, key);
  return {words[0][0], words[1][0], words[2][0], words[3][0]};
}

/// A key for one use of the user's seed. `stream` tells sequences of one domain
/// apart: the rank for Domain::Step, the epoch for Domain::Rows, else 0.
FSDP_HOST_DEVICE inline Key deriveKey(uint64_t seed, Domain domain,
                                      uint64_t stream) {
  Block block =
      generate({uint32_t(stream), uint32_t(stream >> 32), uint32_t(domain), 0},
               {uint32_t(seed), uint32_t(seed >> 32)});
  return {block[0], block[1]};
}

FSDP_HOST_DEVICE inline uint64_t join(uint32_t high, uint32_t low) {
  return uint64_t(high) << 32 | low;
}

/// Uniform in [0, 1), in steps of 2^-24: all values are exact floats.
FSDP_HOST_DEVICE inline float toUniform(uint32_t bits) {
  return float(bits >> 8) * 0x1p-24f;
}

/// Uniform in [0, 1), in steps of 2^-53.
FSDP_HOST_DEVICE inline double toUniform(uint32_t high, uint32_t low) {
  return double(join(high, low) >> 11) * 0x1p-53;
}

/// In (0, 1), both ends excluded, symmetric about 1/2: logarithms are finite.
FSDP_HOST_DEVICE inline float toOpen(uint32_t bits) {
  return (float(bits >> 9) + 0.5f) * 0x1p-23f;
}
FSDP_HOST_DEVICE inline double toOpen(uint32_t high, uint32_t low) {
  return (double(join(high, low) >> 12) + 0.5) * 0x1p-52;
}

/// Two independent standard normals out of two numbers (Box and Muller).
inline std::array<float, 2> toNormals(uint32_t a, uint32_t b) {
  // In (0, 1]: the logarithm must be finite.
  float radius = std::sqrt(-2 * std::log((a >> 8) * 0x1p-24f + 0x1p-24f));
  float angle = 2 * std::numbers::pi_v<float> * toUniform(b);
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

} // namespace fsdp::philox

#endif // FSDP_SUPPORT_PHILOX_H
