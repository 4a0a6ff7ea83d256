//===- LiveBytes.h - Bytes in use over a program ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a program's transient tensors (all storages but states) need at each of
// its ops. Follows from lifetimes alone, so it holds for any addresses: the
// highest point, with the room that each tensor takes, is what no packing can
// stay below.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_ANALYSIS_LIVEBYTES_H
#define FSDP_PASSES_ANALYSIS_LIVEBYTES_H

#include "passes/analysis/Liveness.h"

#include <limits>

namespace fsdp {

/// Bytes of tensors that live for a part of a program, at one moment.
struct TransientUse {
  int64_t inputs = 0, activations = 0, gathered = 0, grads = 0;

  int64_t total() const { return inputs + activations + gathered + grads; }
};

/// The use from op number `time` on, until the next point of a curve. Inputs
/// are there at -1.
struct LivePoint {
  int64_t time = -1;
  TransientUse use;
};

/// By time, one point for each op at which the use of a memory changes. Each
/// storage counts from its first op through its last, with its bytes or what
/// `round` makes of them: the room that it takes. O(n log n).
llvm::SmallVector<LivePoint>
getLiveCurve(const Liveness &liveness,
             llvm::function_ref<int64_t(int64_t)> round = nullptr,
             MemorySpace memory = MemorySpace::Device);

/// The first highest point among the ops with numbers begin <= n < end. Zero at
/// `begin` if nothing lives there.
LivePoint getPeak(llvm::ArrayRef<LivePoint> curve, int64_t begin = -1,
                  int64_t end = std::numeric_limits<int64_t>::max());

} // namespace fsdp

#endif // FSDP_PASSES_ANALYSIS_LIVEBYTES_H
