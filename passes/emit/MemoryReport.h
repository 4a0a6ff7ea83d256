//===- MemoryReport.h - What a step needs, and where ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_EMIT_MEMORYREPORT_H
#define FSDP_PASSES_EMIT_MEMORYREPORT_H

#include "passes/plan/ProgramUse.h"

#include "llvm/Support/JSON.h"

namespace fsdp {

/// A point of a program as its user knows it: program, phase, position (number
/// of the op), op, and module, source and bucket where they are known.
llvm::json::Object describePoint(mlir::func::FuncOp program,
                                 const PeakPoint &point);

/// The same in a line: "backward, aten.mm of layers.3.mlp (llama/model.py:12)".
std::string printPoint(const PeakPoint &point);

/// `memory` of the report: `fsdp.memory`, the lower bound, and the point of the
/// highest use; of several programs also those of each.
llvm::json::Object describeMemory(mlir::ModuleOp module,
                                  llvm::ArrayRef<ProgramUse> uses);

/// `phases` of the report for the programs that are the parts of a step: of
/// each phase the part that needs most.
llvm::json::Object describePhases(llvm::ArrayRef<const ProgramUse *> parts);

} // namespace fsdp

#endif // FSDP_PASSES_EMIT_MEMORYREPORT_H
