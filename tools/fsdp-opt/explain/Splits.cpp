//===- Splits.cpp - What ranks of a step hold parts of --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/explain/Splits.h"

#include "ir/fsdp/Fsdp.h"
#include "support/Table.h"
#include "tools/fsdp-opt/explain/Summary.h"

#include "llvm/ADT/StringMap.h"

#include <vector>

using namespace fsdp;
using namespace mlir;

static std::string describeCut(SplitAttr split) {
  std::string text = "dim " + std::to_string(split.getDim());
  return split.getBlocks() == 1
             ? text
             : text + ", " + std::to_string(split.getBlocks()) + " blocks";
}

std::string fsdp::listSplits(ModuleOp module) {
  auto told = getSetting<ParallelAttr>(module);
  if (told.getTp() == 1)
    return "";
  // By name, dim and shapes.
  struct Line {
    StateOp state;
    int64_t count = 0;
  };
  std::vector<Line> lines;
  llvm::StringMap<size_t> alike;
  int64_t whole = 0, split = 0;
  for (StateOp state : module.getOps<StateOp>()) {
    if (!isParameter(state) || state.isFlat())
      continue;
    if (!state.getSplit()) {
      ++whole;
      continue;
    }
    ++split;
    std::string key = maskNumbers(state.getSymName()) + " " +
                      describeCut(*state.getSplit()) +
                      describeShape(state.getGlobalType());
    auto [it, isNew] = alike.try_emplace(key, lines.size());
    if (isNew)
      lines.push_back({state});
    ++lines[it->second].count;
  }
  TextTable table;
  table.add({"parameter", "tensors", "split along", "from", "to a rank's"});
  for (auto [state, count] : lines) {
    table.add({count == 1 ? state.getSymName().str()
                          : maskNumbers(state.getSymName()),
               std::to_string(count), describeCut(*state.getSplit()),
               describeShape(state.getWholeType()),
               describeShape(state.getGlobalType())});
  }
  std::string text = "\ntensor-parallel plan, " +
                     std::string(told.getAutomatic() ? "found in the program"
                                                     : "as tp_plan says") +
                     ": " + std::to_string(split) + " parameters split over " +
                     std::to_string(told.getTp()) + " ranks, " +
                     std::to_string(whole) + " whole on each\n";
  return text + (split != 0 ? table.print() : "") +
         "  --remarks-filter=parallel lists what each rank computes whole, and "
         "why.\n";
}
