//===- Worlds.h - One artifact for several numbers of ranks -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TOOLS_FSDPOPT_COMPILE_WORLDS_H
#define FSDP_TOOLS_FSDPOPT_COMPILE_WORLDS_H

#include "tools/fsdp-opt/input/CommandLine.h"

#include "mlir/IR/MLIRContext.h"

#include <string>

namespace fsdp {

struct CompiledWorlds {
  std::string artifact; ///< its bytes
  /// JSON: `plans`, the report of each (makeReport) with its number of ranks,
  /// `world`.
  std::string report;
};

/// Compiles what `line` names for each of its `planWorlds`; the model is read
/// once. Throws fsdp::Error: as compiling for one, with the number of ranks;
/// as joinWorlds.
CompiledWorlds compileWorlds(mlir::MLIRContext &context,
                             const CommandLine &line);

} // namespace fsdp

#endif // FSDP_TOOLS_FSDPOPT_COMPILE_WORLDS_H
