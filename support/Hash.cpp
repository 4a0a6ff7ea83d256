//===- Hash.cpp - Hashes of bytes -----------------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "support/Hash.h"

// Header only: nothing to link, nothing to find at run time.
#define XXH_INLINE_ALL
#include <xxhash.h>

using namespace fsdp;

uint64_t fsdp::hash64(std::string_view bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::string fsdp::hash128(std::string_view bytes) {
  XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return toHex(hash.high64) + toHex(hash.low64);
}

std::string fsdp::toHex(uint64_t value) {
  std::string digits(16, '0');
  for (size_t i = 16; i-- > 0; value >>= 4)
    digits[i] = "0123456789abcdef"[value & 15];
  return digits;
}
