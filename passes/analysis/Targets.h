//===- Targets.h - What a module is compiled for ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_ANALYSIS_TARGETS_H
#define FSDP_PASSES_ANALYSIS_TARGETS_H

#include "ir/features/Devices.h"
#include "ir/fsdp/Fsdp.h"

namespace fsdp {

/// The kind of device that `module` was captured for, and what it can do.
inline const Device &getTarget(mlir::ModuleOp module) {
  return findDevice(getDevice(module));
}

} // namespace fsdp

#endif // FSDP_PASSES_ANALYSIS_TARGETS_H
