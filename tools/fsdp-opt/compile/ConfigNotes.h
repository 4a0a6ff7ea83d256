//===- ConfigNotes.h - What a config says beside its values -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TOOLS_FSDPOPT_COMPILE_CONFIGNOTES_H
#define FSDP_TOOLS_FSDPOPT_COMPILE_CONFIGNOTES_H

#include "tools/fsdp-opt/config/Config.h"

#include "mlir/IR/BuiltinOps.h"

namespace fsdp {

/// Keeps warnings and notes of `loaded` for stderr. Of minor ones only the
/// number, unless they are few or `verbose` asks for them.
void addConfigNotes(const LoadedConfig &loaded, bool verbose);

/// Warns where a file of another tool states sizes of a rank's batch that no
/// input of `module`'s programs has.
void compareStatedSizes(mlir::ModuleOp module, const LoadedConfig &loaded);

/// Says that what the optimizer keeps of parameters in two bytes has their
/// type, unless the config says otherwise.
void noteHalfStates(mlir::ModuleOp module, const Config &config);

} // namespace fsdp

#endif // FSDP_TOOLS_FSDPOPT_COMPILE_CONFIGNOTES_H
