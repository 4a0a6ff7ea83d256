//===- Crc.cpp - CRC-32 of bytes, whole and in parts ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "support/Crc.h"

#include "support/Hash.h"

#include <zlib.h>

using namespace fsdp;

uint32_t fsdp::crc32Of(const void *data, size_t bytes, uint32_t before) {
  return static_cast<uint32_t>(
      crc32_z(before, static_cast<const Bytef *>(data), bytes));
}

uint32_t fsdp::crc32Share(uint32_t crc, uint64_t behind) {
  return static_cast<uint32_t>(
      crc32_combine(crc, 0, static_cast<z_off_t>(behind)));
}

std::string fsdp::crcText(uint32_t crc) { return toHex(crc).substr(8); }
