//===- Report.h - What a step moves and needs, as JSON ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_EMIT_REPORT_H
#define FSDP_PASSES_EMIT_REPORT_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/JSON.h"

namespace fsdp {

/// The report of a planned module (--report), per rank and optimizer step:
///
///   collectives  one entry a transfer, in the order in which they start: kind,
///                group, dtype, bucket, members (tensors), count (how often the
///                step makes it, of several micro-batches), bytes (received by
///                an all-gather, sent into a reduce-scatter; padding rows
///                included)
///   metrics      the same for the transfers of loss and gradient norm
///   memory       fsdp.memory, in bytes; lower_bound, which no packing stays
///                below, and over_lower_bound, the peak divided by it; `at`,
///                the point of the highest use: program, phase, position
///                (number of the op), op, and module, source, bucket where they
///                are known; of several programs `programs`, with the same for
///                each
///   phases       of each phase the transient bytes by kind and `at`
///   ops          how often a step runs each op
///   micro_batches  of a step
///   adapters     what --export-merged merges, if anything: base, down, up
///                (names of states) and scale
///   programs     only of a module with programs for several shapes, in order:
///                name, collectives, metrics and ops of a step of each; those
///                above are the first one's
llvm::json::Value buildReport(mlir::ModuleOp module);

} // namespace fsdp

#endif // FSDP_PASSES_EMIT_REPORT_H
