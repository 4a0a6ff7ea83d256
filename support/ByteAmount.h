//===- ByteAmount.h - Bytes as people write them ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_SUPPORT_BYTEAMOUNT_H
#define FSDP_SUPPORT_BYTEAMOUNT_H

#include <optional>
#include <string>

namespace fsdp {

/// "60GiB", "24 GB", "64e9": bytes above 0; absent if it is no such text.
std::optional<double> parseBytes(const std::string &text);

} // namespace fsdp

#endif // FSDP_SUPPORT_BYTEAMOUNT_H
