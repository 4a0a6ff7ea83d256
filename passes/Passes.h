//===- Passes.h - All passes of the compiler --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Passes are declared and described in the Passes.td of their folder;
// docs/Reference lists them.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_PASSES_H
#define FSDP_PASSES_PASSES_H

#include "ir/aten/Aten.h"
#include "ir/fsdp/Fsdp.h"

#include "mlir/Pass/Pass.h"

namespace fsdp {

#define GEN_PASS_DECL
#include "passes/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "passes/Passes.h.inc"

/// Makes every pass known by its argument. Call once a process.
inline void registerPasses() { registerFsdpPasses(); }

} // namespace fsdp

#endif // FSDP_PASSES_PASSES_H
