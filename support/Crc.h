//===- Crc.h - CRC-32 of bytes, whole and in parts --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_SUPPORT_CRC_H
#define FSDP_SUPPORT_CRC_H

#include <cstddef>
#include <cstdint>
#include <string>

namespace fsdp {

/// CRC-32 as zip archives have it, of `bytes` bytes behind those that gave
/// `before`; 0 of none.
uint32_t crc32Of(const void *data, size_t bytes, uint32_t before = 0);

/// What bytes of checksum `crc` add to that of a whole in which `behind` bytes
/// follow them: the checksum of a whole is the exclusive or of its parts'
/// shares, in any order.
uint32_t crc32Share(uint32_t crc, uint64_t behind);

/// 8 lower-case hex digits.
std::string crcText(uint32_t crc);

} // namespace fsdp

#endif // FSDP_SUPPORT_CRC_H
