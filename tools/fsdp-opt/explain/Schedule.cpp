//===- Schedule.cpp - The schedule of a step as a table -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/explain/Schedule.h"

#include "passes/analysis/Programs.h"
#include "passes/emit/ScheduleTable.h"
#include "support/Format.h"
#include "support/Table.h"

using namespace fsdp;
using namespace mlir;

static std::string describeBeside(const TransferRow &row) {
  if (row.beside == 0)
    return "nothing";
  std::string text = std::to_string(row.beside) +
                     (row.beside == 1 ? " operator" : " operators");
  return row.besideModules.empty() ? text : text + " of " + row.besideModules;
}

std::string fsdp::printSchedule(ModuleOp module) {
  std::string text;
  for (func::FuncOp program : getPrograms(module)) {
    std::vector<TransferRow> rows = listTransfers(program);
    if (rows.empty())
      continue;
    TextTable table;
    table.add({program.getSymName().str(), "moves", "bytes", "starts after",
               "because", "beside", "waited for before", "freed after"});
    std::string phase;
    for (const TransferRow &row : rows) {
      if (row.phase != phase)
        table.add({row.phase, "", "", "", "", "", "", ""});
      phase = row.phase;
      table.add({"  " + row.bucket, row.kind, formatBytes(row.bytes), row.start,
                 row.why, describeBeside(row), row.wait, row.free});
    }
    text += table.print();
  }
  return text;
}
