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

#include <limits>

namespace fsdp {

/// Which buckets are gathered again for backward.
enum class ReshardMode { All, AllButRoot, None };

/// How the shards of a bucket lie.
enum class BucketLayout {
  Auto, ///< flat what can be, the rest in rows
  Rows, ///< each parameter's own rows
  Flat, ///< equal parts of all parameters in a row
  Fsdp2 ///< rows, moved as FSDP2 does: copied into one tensor, and out of it
};

/// When ranks exchange the gradients of a step's micro-batches.
enum class GradientSync {
  Each,         ///< all reductions in each micro-batch
  Last,         ///< all in the last one
  AllReduceLast ///< reduce-scatters in each, all-reduces in the last one
};

#define GEN_PASS_DECL
#include "passes/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "passes/Passes.h.inc"

/// Makes every pass known by its argument. Call once a process.
inline void registerPasses() { registerFsdpPasses(); }

} // namespace fsdp

#endif // FSDP_PASSES_PASSES_H
