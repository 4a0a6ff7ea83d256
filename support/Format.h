//===- Format.h - Quantities as people read them ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_SUPPORT_FORMAT_H
#define FSDP_SUPPORT_FORMAT_H

#include <cstdint>
#include <string>

namespace fsdp {

/// "12.3 MiB".
std::string formatBytes(uint64_t bytes);

/// The shortest text that reads back as the same number.
std::string formatNumber(double number);

/// With so many digits behind the point.
std::string formatFixed(double number, int digits);

/// "12.345": milliseconds, without the unit.
std::string formatMilliseconds(double seconds);

} // namespace fsdp

#endif // FSDP_SUPPORT_FORMAT_H
