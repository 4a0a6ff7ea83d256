//===- MemoryMap.h - A picture of the arena over time -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_EMIT_MEMORYMAP_H
#define FSDP_PASSES_EMIT_MEMORYMAP_H

#include "mlir/IR/BuiltinOps.h"

#include <string>

namespace fsdp {

/// A page of HTML (--memory-map) that shows where each tensor of a planned
/// module lies and when: ops from left to right, addresses from the bottom to
/// the top. Needs nothing but a browser. `title` is shown as it is.
std::string drawMemoryMap(mlir::ModuleOp module, llvm::StringRef title);

} // namespace fsdp

#endif // FSDP_PASSES_EMIT_MEMORYMAP_H
