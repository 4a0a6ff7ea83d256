//===- Schedule.h - The schedule of a step as a table -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TOOLS_FSDPOPT_EXPLAIN_SCHEDULE_H
#define FSDP_TOOLS_FSDPOPT_EXPLAIN_SCHEDULE_H

#include "mlir/IR/BuiltinOps.h"

#include <string>

namespace fsdp {

/// For --explain: for each transfer of a compiled program how much it moves,
/// where it starts and is waited for, beside what it runs, where what it
/// brought is freed, and why it starts there.
std::string printSchedule(mlir::ModuleOp module);

} // namespace fsdp

#endif // FSDP_TOOLS_FSDPOPT_EXPLAIN_SCHEDULE_H
