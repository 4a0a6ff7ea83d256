//===- MemoryReport.cpp - What a step needs, and where --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/emit/MemoryReport.h"

#include "passes/analysis/SourcePlace.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace fsdp;

llvm::json::Object fsdp::describePoint(func::FuncOp program,
                                       const PeakPoint &point) {
  SourcePlace place(point.op->getLoc());
  llvm::json::Object object{{"program", program.getSymName().str()},
                            {"phase", point.phase.str()},
                            {"position", point.time},
                            {"op", point.op->getName().getStringRef().str()}};
  if (!place.module.empty())
    object["module"] = place.module.str();
  if (std::string source = place.getSource(); !source.empty())
    object["source"] = source;
  if (auto start = dyn_cast<StartOpInterface>(point.op))
    if (StringAttr bucket = start.getBucketAttr())
      object["bucket"] = bucket.getValue().str();
  return object;
}

std::string fsdp::printPoint(const PeakPoint &point) {
  std::string text =
      (point.phase + ", " + point.op->getName().getStringRef()).str();
  SourcePlace place(point.op->getLoc());
  if (!place.module.empty())
    text += " of " + place.module.str();
  // The end of a path says which file it is.
  std::string source = place.getSource();
  StringRef folder = StringRef(source).rsplit('/').first.rsplit('/').first;
  if (StringRef(source).count('/') > 1)
    source = source.substr(folder.size() + 1);
  return source.empty() ? text : text + " (" + source + ")";
}

static llvm::json::Object describeUse(const TransientUse &use) {
  return llvm::json::Object{{"inputs", use.inputs},
                            {"activations", use.activations},
                            {"gathered", use.gathered},
                            {"grads", use.grads}};
}

llvm::json::Object fsdp::describePhases(ArrayRef<const ProgramUse *> parts) {
  struct Highest {
    func::FuncOp program;
    const PeakPoint *point = nullptr;
  };
  llvm::MapVector<StringRef, Highest> highest;
  for (const ProgramUse *part : parts)
    for (const PeakPoint &point : part->phasePeaks) {
      Highest &each = highest[point.phase];
      if (!each.point || point.use.total() > each.point->use.total())
        each = {part->program, &point};
    }
  llvm::json::Object phases;
  for (const auto &[name, each] : highest) {
    llvm::json::Object phase = describeUse(each.point->use);
    phase["at"] = describePoint(each.program, *each.point);
    phases[name] = std::move(phase);
  }
  return phases;
}

/// Bytes by name, of another memory in an object of its own.
static void describeEntry(NamedAttribute entry, llvm::json::Object &to) {
  StringRef name = entry.getName().getValue();
  if (auto bytes = dyn_cast<IntegerAttr>(entry.getValue()))
    to[name] = bytes.getInt();
  if (auto texts = dyn_cast<ArrayAttr>(entry.getValue()))
    to[name] = llvm::json::Array(getTexts(texts));
  auto entries = dyn_cast<DictionaryAttr>(entry.getValue());
  if (!entries)
    return;
  llvm::json::Object other;
  for (NamedAttribute each : entries)
    describeEntry(each, other);
  to[name] = std::move(other);
}

llvm::json::Object fsdp::describeMemory(ModuleOp module,
                                        ArrayRef<ProgramUse> uses) {
  llvm::json::Object memory;
  for (NamedAttribute entry :
       module->getAttrOfType<DictionaryAttr>(kMemoryAttr))
    describeEntry(entry, memory);
  if (uses.empty())
    return memory;
  const ProgramUse *highest = &uses.front(), *bound = &uses.front();
  for (const ProgramUse &use : uses) {
    if (use.peak.use.total() > highest->peak.use.total())
      highest = &use;
    if (use.lowerBound > bound->lowerBound)
      bound = &use;
  }
  memory["lower_bound"] = bound->lowerBound;
  memory["over_lower_bound"] = bound->lowerBound
                                   ? static_cast<double>(getLargest(uses).end) /
                                         static_cast<double>(bound->lowerBound)
                                   : 1.0;
  memory["at"] = describePoint(highest->program, highest->peak);
  if (uses.size() == 1)
    return memory;
  llvm::json::Array programs;
  for (const ProgramUse &use : uses) {
    llvm::json::Object program = describeUse(use.peak.use);
    program["name"] = func::FuncOp(use.program).getSymName().str();
    program["peak"] = use.end;
    program["lower_bound"] = use.lowerBound;
    program["over_lower_bound"] = use.getRatio();
    program["at"] = describePoint(use.program, use.peak);
    programs.push_back(std::move(program));
  }
  memory["programs"] = std::move(programs);
  return memory;
}
