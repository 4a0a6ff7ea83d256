//===- Permutation.cpp - A random order without a table -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/data/Permutation.h"

using namespace fsdp;

/// Four make a Feistel network of random functions a random permutation (Luby
/// and Rackoff); more help small ones.
static constexpr uint32_t kRounds = 8;

Permutation::Permutation(uint64_t size, uint64_t seed, uint64_t epoch,
                         philox::Domain domain)
    : size(size), key(philox::deriveKey(seed, domain, epoch)) {
  while (halfBits < 31 && uint64_t{1} << (2 * halfBits) < size)
    ++halfBits;
}

uint64_t Permutation::encrypt(uint64_t number) const {
  const uint64_t mask = (uint64_t{1} << halfBits) - 1;
  uint64_t left = number >> halfBits, right = number & mask;
  for (uint32_t round = 0; round < kRounds; ++round) {
    philox::Block block =
        philox::generate({static_cast<uint32_t>(right), round, 0, 0}, key);
    uint64_t next = left ^ (block[0] & mask);
    left = right;
    right = next;
  }
  return left << halfBits | right;
}

uint64_t Permutation::operator()(uint64_t number) const {
  // Numbers past the end are sent on: their cycle comes back into the range.
  // The network is at most four times as large as that.
  do
    number = encrypt(number);
  while (number >= size);
  return number;
}
