//===- Annotate.h - The config's word to the run, on the module -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TOOLS_FSDPOPT_ANNOTATE_H
#define FSDP_TOOLS_FSDPOPT_ANNOTATE_H

#include "tools/fsdp-opt/Config.h"

#include "mlir/IR/BuiltinOps.h"

namespace fsdp {

/// Puts on `module` what `config` tells the run and no pass does: schedule,
/// data, validation, arithmetic, what a NaN does. Replaces what is there.
void annotate(mlir::ModuleOp module, const Config &config);

} // namespace fsdp

#endif // FSDP_TOOLS_FSDPOPT_ANNOTATE_H
