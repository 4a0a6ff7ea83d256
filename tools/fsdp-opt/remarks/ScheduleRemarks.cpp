//===- ScheduleRemarks.cpp - When each transfer starts, and why -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/analysis/Decisions.h"
#include "passes/analysis/Programs.h"
#include "passes/emit/ScheduleTable.h"
#include "support/Format.h"
#include "tools/fsdp-opt/input/Diagnostics.h"
#include "tools/fsdp-opt/remarks/Remarks.h"

using namespace mlir;
using namespace fsdp;

static std::string describe(const TransferRow &row) {
  std::string text = row.kind + " of ";
  text += row.bucket.empty() ? std::string("what computes")
                             : "bucket '" + row.bucket + "'";
  text += ", " + formatBytes(static_cast<uint64_t>(row.bytes)) + ": starts " +
          (row.start == "the begin" ? "at " : "after ") + row.start + " in " +
          row.phase + ", is waited for " +
          (row.wait == "the end" ? "at " : "before ") + row.wait + ", with " +
          std::to_string(row.beside) +
          (row.beside == 1 ? " operator" : " operators") + " beside it";
  if (!row.free.empty())
    text += ", and is freed after " + row.free;
  return text;
}

/// What nothing can hide is a chance that was missed.
static void explain(func::FuncOp program, const TransferRow &row) {
  remark::RemarkOpts options = nameDecision(
      "schedule", row.beside == 0 ? "NothingBeside" : "Overlapped", program);
  (row.beside == 0 ? remark::missed(row.place, options)
                   : remark::passed(row.place, options))
      << describe(row) << remark::reason("{0}", row.why);
}

void fsdp::remarkSchedule(ModuleOp module) {
  if (!wantsRemarks(module))
    return;
  DiagnosticCollector diagnostics(module.getContext());
  for (func::FuncOp program : getPrograms(module))
    for (const TransferRow &row : listTransfers(program))
      explain(program, row);
}
