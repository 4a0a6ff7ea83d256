//===- Annotate.h - The config as attributes of the module ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TOOLS_FSDPOPT_COMPILE_ANNOTATE_H
#define FSDP_TOOLS_FSDPOPT_COMPILE_ANNOTATE_H

#include "tools/fsdp-opt/config/Config.h"

#include "mlir/IR/BuiltinOps.h"

namespace fsdp {

/// Puts on `module` all that `config` tells passes and the run, in the place of
/// what is there. From here on the module alone says what becomes of it.
void annotate(mlir::ModuleOp module, const Config &config);

} // namespace fsdp

#endif // FSDP_TOOLS_FSDPOPT_COMPILE_ANNOTATE_H
