//===- Explain.h - What a model holds and what it would cost ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TOOLS_FSDPOPT_EXPLAIN_EXPLAIN_H
#define FSDP_TOOLS_FSDPOPT_EXPLAIN_EXPLAIN_H

#include "tools/fsdp-opt/input/CommandLine.h"

#include "mlir/IR/MLIRContext.h"

namespace fsdp {

/// Prints parameters, buckets, everything that is not supported, and the memory
/// and transfers of a rank for several world sizes. Returns the exit status: 1
/// if something is not supported, which stderr's first line then says. Throws
/// fsdp::Error if the file cannot be read.
int explain(mlir::MLIRContext &context, const CommandLine &line);

} // namespace fsdp

#endif // FSDP_TOOLS_FSDPOPT_EXPLAIN_EXPLAIN_H
