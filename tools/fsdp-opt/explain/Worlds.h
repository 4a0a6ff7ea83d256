//===- Worlds.h - What ranks hold, by their number --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TOOLS_FSDP_OPT_EXPLAIN_WORLDS_H
#define FSDP_TOOLS_FSDP_OPT_EXPLAIN_WORLDS_H

#include "tools/fsdp-opt/config/Config.h"
#include "tools/fsdp-opt/explain/Summary.h"
#include "tools/fsdp-opt/input/CommandLine.h"

namespace fsdp {

/// Where one number of ranks is shown, the greatest that was named.
std::optional<int64_t> getShownWorld(const CommandLine &line);

/// Consecutive buckets that differ in their name alone share a row.
void printBuckets(llvm::ArrayRef<BucketSummary> buckets);

/// Compiles copies for several world sizes. Prints the buckets before the table
/// of sizes.
void printWorlds(mlir::ModuleOp module, Config config, const CommandLine &line);

} // namespace fsdp

#endif // FSDP_TOOLS_FSDP_OPT_EXPLAIN_WORLDS_H
