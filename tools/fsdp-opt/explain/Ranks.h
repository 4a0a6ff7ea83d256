//===- Ranks.h - Which ranks form which groups ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TOOLS_FSDPOPT_EXPLAIN_RANKS_H
#define FSDP_TOOLS_FSDPOPT_EXPLAIN_RANKS_H

#include "tools/fsdp-opt/config/Config.h"

#include <string>

namespace fsdp {

/// Draws the config's mesh: a row for each shard of each replica, in it the
/// ranks that compute a step together, and below it each axis with its groups.
/// Of many, the first and the last. Empty for a mesh of one axis.
std::string drawRanks(const Config &config);

} // namespace fsdp

#endif // FSDP_TOOLS_FSDPOPT_EXPLAIN_RANKS_H
