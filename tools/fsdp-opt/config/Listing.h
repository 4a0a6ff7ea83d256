//===- Listing.h - What becomes of a file's keys, for people ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TOOLS_FSDPOPT_CONFIG_LISTING_H
#define FSDP_TOOLS_FSDPOPT_CONFIG_LISTING_H

#include "tools/fsdp-opt/config/Config.h"

namespace fsdp {

/// A line of numbers, the keys by what becomes of them, and the config in keys
/// of this project. Errors call the file `name`.
std::string listKeys(const ReadConfig &read, const std::string &name);

} // namespace fsdp

#endif // FSDP_TOOLS_FSDPOPT_CONFIG_LISTING_H
