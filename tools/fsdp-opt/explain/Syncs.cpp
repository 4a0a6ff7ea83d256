//===- Syncs.cpp - What keeps a step from one launch ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/explain/Syncs.h"

#include "passes/analysis/CudaSyncs.h"
#include "passes/analysis/Programs.h"
#include "passes/analysis/SourcePlace.h"
#include "support/Table.h"
#include "tools/fsdp-opt/explain/Summary.h"

#include "llvm/ADT/StringMap.h"

#include <array>
#include <vector>

using namespace fsdp;
using namespace mlir;

std::string fsdp::listSyncs(ModuleOp module) {
  std::optional<int> capability = getCudaCapability(module);
  if (!capability)
    return "";
  struct Line {
    std::array<std::string, 4> cells; ///< operator, why, module, line
    int64_t calls = 0;
  };
  std::vector<Line> lines;
  llvm::StringMap<size_t> alike;
  for (func::FuncOp program : getPrograms(module))
    for (Operation &op : program.getBody().front()) {
      StringRef why = getCudaSync(&op, *capability);
      if (why.empty())
        continue;
      SourcePlace place(op.getLoc());
      std::string name = op.getName().getStringRef().str();
      std::string where = maskNumbers(place.module.str());
      auto [it, isNew] = alike.try_emplace(
          name + " " + where + " " + place.getSource(), lines.size());
      if (isNew)
        lines.emplace_back();
      Line &line = lines[it->second];
      line.cells = {name, why.str(), isNew ? place.module.str() : where,
                    place.getSource()};
      ++line.calls;
    }
  if (lines.empty())
    return "";
  TextTable table;
  table.add({"operator", "calls", "module", "line", "why"});
  for (const Line &line : lines) {
    const auto &[name, why, where, source] = line.cells;
    table.add({name, std::to_string(line.calls), where, source, why});
  }
  return "\nno CUDA graph can hold these, within which the host waits for the "
         "GPU; kernels of their programs are launched one by one\n" +
         table.print();
}
