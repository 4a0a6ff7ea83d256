//===- SourcePlace.cpp - Where in a model an op comes from ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/analysis/SourcePlace.h"

using namespace mlir;
using namespace fsdp;

static void collect(Location location, StringRef &module,
                    FileLineColLoc &line) {
  if (auto name = dyn_cast<NameLoc>(location)) {
    if (module.empty())
      module = name.getName().getValue();
    collect(name.getChildLoc(), module, line);
  } else if (auto file = dyn_cast<FileLineColLoc>(location)) {
    if (!line)
      line = file;
  } else if (auto call = dyn_cast<CallSiteLoc>(location)) {
    collect(call.getCallee(), module, line);
  } else if (auto fused = dyn_cast<FusedLoc>(location)) {
    for (Location part : fused.getLocations())
      collect(part, module, line);
  }
}

SourcePlace::SourcePlace(Location location) { collect(location, module, line); }

std::string SourcePlace::getSource() const {
  return line ? line.getFilename().str() + ":" + std::to_string(line.getLine())
              : std::string();
}

std::string SourcePlace::describe() const {
  std::string source = getSource();
  if (module.empty() || source.empty())
    return module.empty() ? source : module.str();
  return module.str() + " (" + source + ")";
}
