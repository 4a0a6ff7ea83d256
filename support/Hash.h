//===- Hash.h - Hashes of bytes ---------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// XXH3. Equal on all machines; not for secrets.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_SUPPORT_HASH_H
#define FSDP_SUPPORT_HASH_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace fsdp {

/// XXH3-64 of `bytes`.
uint64_t hash64(std::string_view bytes);

/// XXH3-128 of `bytes` as 32 lower-case hex digits.
std::string hash128(std::string_view bytes);

/// `value` as 16 lower-case hex digits.
std::string toHex(uint64_t value);

} // namespace fsdp

#endif // FSDP_SUPPORT_HASH_H
