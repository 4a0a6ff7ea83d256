//===- Report.cpp - What a step moves and needs, as JSON ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/emit/Report.h"

#include "ir/aten/Aten.h"
#include "passes/analysis/Entries.h"
#include "passes/analysis/Transfers.h"
#include "passes/emit/MemoryReport.h"
#include "passes/emit/PlanEnums.h"
#include "passes/emit/ScheduleTable.h"
#include "passes/emit/Types.h"
#include "plan/DType.h"
#include "plan/Groups.h"
#include "plan/Traffic.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

#include <map>

using namespace mlir;
using namespace fsdp;

static std::string groupName(GroupAttr group) {
  return getGroupLabel(group.getName().getValue());
}

static llvm::json::Object describe(StartOp start, int64_t count,
                                   const StateTable &states) {
  StringAttr bucket = start.getBucketAttr();
  CollectiveKind kind = toPlan(start.getKind());
  auto copied = start->getAttrOfType<IntegerAttr>(kCopiedAttr);
  int64_t members = 0;
  std::string dtype;
  std::map<std::string, int64_t> bytes; // of a gather, by what it moves
  for (auto [i, input, type] :
       llvm::enumerate(start.getInputs(), start.getPromised())) {
    StateOp state = getMovedState(start, i, states);
    if (copied)
      members += copied.getInt();
    else
      members += state && state.isFlat() ? states.getMembers(state).size() : 1;
    auto own =
        cast<RankedTensorType>(isReduction(kind) ? type : input.getType());
    if (std::optional<plan::DType> known = toDType(own.getElementType()))
      dtype = dtypeName(*known);
    if (kind == CollectiveKind::all_gather)
      bytes[dtype] += static_cast<int64_t>(
          getTraffic(kind, static_cast<uint64_t>(aten::getStorageBytes(own)),
                     static_cast<uint64_t>(start.getGroup().getSize())));
  }
  llvm::json::Object row{
      {"kind", getName(kind)},
      {"group", groupName(start.getGroup())},
      {"dtype", dtype},
      {"count", count},
      {"tensors", static_cast<int64_t>(start.getInputs().size())},
      {"members", members},
      {"bytes", getTraffic(start)},
      {"bucket", bucket ? bucket.getValue() : StringRef()},
  };
  if (bytes.size() > 1) {
    row["dtype"] = "mixed";
    llvm::json::Object each;
    for (const auto &[name, count] : bytes)
      each[name] = count;
    row["bytes_by_dtype"] = std::move(each);
  }
  return row;
}

/// How often a step of `microBatches` runs a part of it.
static int64_t getRuns(StepPart part, int64_t microBatches) {
  return part == StepPart::Middle ? microBatches - 2 : 1;
}

/// When a program's transfers start and end, and why.
static void listSchedule(func::FuncOp program, llvm::json::Array &schedule) {
  for (const TransferRow &row : listTransfers(program))
    schedule.push_back(llvm::json::Object{{"program", program.getSymName()},
                                          {"bucket", row.bucket},
                                          {"kind", row.kind},
                                          {"phase", row.phase},
                                          {"bytes", row.bytes},
                                          {"starts_after", row.start},
                                          {"because", row.why},
                                          {"operators_beside", row.beside},
                                          {"modules_beside", row.besideModules},
                                          {"waited_for_before", row.wait},
                                          {"freed_after", row.free}});
}

/// One step, of the programs that are its parts.
static llvm::json::Object describe(ArrayRef<const ProgramUse *> parts,
                                   int64_t microBatches) {
  llvm::json::Array collectives, metrics, copies, schedule;
  func::FuncOp first = parts.front()->program;
  StateTable states(first->getParentOfType<ModuleOp>());
  std::map<std::string, int64_t> counts;
  for (const ProgramUse *part : parts) {
    func::FuncOp program = part->program;
    int64_t runs = getRuns(getStepPart(program), microBatches);
    listSchedule(program, schedule);
    for (Operation &op : program.getBody().front()) {
      counts[op.getName().getStringRef().str()] += runs;
      auto start = dyn_cast<StartOpInterface>(op);
      if (!start)
        continue;
      StringAttr bucket = start.getBucketAttr();
      if (auto copy = dyn_cast<CopyStartOp>(op)) {
        copies.push_back(llvm::json::Object{
            {"kind", stringifyStream(copy.getStream())},
            {"bucket", bucket ? bucket.getValue() : StringRef()},
            {"count", runs},
            {"tensors", static_cast<int64_t>(start.getInputs().size())},
            {"bytes", getTraffic(start)}});
        continue;
      }
      auto moved = cast<StartOp>(op);
      (moved.getPurpose() == Purpose::Metric ? metrics : collectives)
          .push_back(describe(moved, runs, states));
    }
  }
  llvm::json::Object ops;
  for (const auto &[name, count] : counts)
    ops[name] = count;
  llvm::json::Object step{{"collectives", std::move(collectives)},
                          {"metrics", std::move(metrics)},
                          {"phases", describePhases(parts)},
                          {"schedule", std::move(schedule)},
                          {"ops", std::move(ops)}};
  if (!copies.empty())
    step["copies"] = std::move(copies);
  return step;
}

/// A row of `fsdp.casts` or `fsdp.attention`.
static llvm::json::Object describeRow(DictionaryAttr row) {
  llvm::json::Object described;
  for (NamedAttribute entry : row) {
    StringRef key = entry.getName().getValue();
    if (auto text = dyn_cast<StringAttr>(entry.getValue()))
      described[key] = text.getValue();
    else if (auto count = dyn_cast<IntegerAttr>(entry.getValue()))
      described[key] = count.getInt();
    else if (auto type = dyn_cast<TypeAttr>(entry.getValue()))
      if (std::optional<plan::DType> dtype = toDType(type.getValue()))
        described[key] = std::string(dtypeName(*dtype));
  }
  return described;
}

static llvm::json::Array describeAdapters(ModuleOp module) {
  llvm::json::Array all;
  if (auto adapters = module->getAttrOfType<ArrayAttr>(kAdaptersAttr))
    for (auto adapter : adapters.getAsRange<AdapterAttr>()) {
      llvm::json::Object row{{"base", adapter.getBase().getValue()},
                             {"down", adapter.getDown().getValue()},
                             {"up", adapter.getUp().getValue()},
                             {"scale", adapter.getScale().getValueAsDouble()}};
      if (FlatSymbolRefAttr magnitude = adapter.getMagnitude())
        row["magnitude"] = magnitude.getValue();
      all.push_back(std::move(row));
    }
  return all;
}

/// The groups of the axes, and those of which transfers speak beside them.
static llvm::json::Array describeGroups(ModuleOp module,
                                        ArrayRef<ProgramUse> uses) {
  llvm::SetVector<GroupAttr> groups;
  if (auto mesh = module->getAttrOfType<MeshAttr>(kMeshAttr))
    for (StringAttr axis : mesh.getNames())
      groups.insert(mesh.getGroup(axis.getValue()));
  for (const ProgramUse &use : uses) {
    func::FuncOp program = use.program;
    for (Operation &op : program.getBody().front())
      if (auto start = dyn_cast<StartOpInterface>(op);
          start && start.getGroup())
        groups.insert(start.getGroup());
  }
  llvm::json::Array all;
  for (GroupAttr group : groups)
    all.push_back(llvm::json::Object{{"group", groupName(group)},
                                     {"ranks", group.getSize()},
                                     {"apart", group.getStride()}});
  return all;
}

llvm::json::Value fsdp::buildReport(ModuleOp module) {
  int64_t microBatches = getMicroBatches(module);
  // By what was captured as one.
  llvm::MapVector<StringRef, SmallVector<const ProgramUse *>> steps;
  SmallVector<ProgramUse, 0> uses = getProgramUses(module);
  SmallVector<std::string> names;
  names.reserve(uses.size());
  for (const ProgramUse &use : uses)
    steps[names.emplace_back(getCaptured(use.program).getSymbol())].push_back(
        &use);
  llvm::json::Object report;
  llvm::json::Array each;
  for (auto &[name, parts] : steps) {
    llvm::json::Object step = describe(parts, microBatches);
    if (each.empty())
      report = step;
    step["name"] = name.str(); // the value would not own a StringRef
    each.push_back(std::move(step));
  }
  if (steps.size() > 1)
    report["programs"] = std::move(each);
  report["micro_batches"] = microBatches;
  report["groups"] = describeGroups(module, uses);
  for (auto [key, name] : {std::pair("casts", kCastsAttr),
                           std::pair("attention", kAttentionAttr)}) {
    llvm::json::Array each;
    if (auto rows = module->getAttrOfType<ArrayAttr>(name))
      for (auto row : rows.getAsRange<DictionaryAttr>())
        each.push_back(describeRow(row));
    report[key] = std::move(each);
  }
  if (llvm::json::Array adapters = describeAdapters(module); !adapters.empty())
    report["adapters"] = std::move(adapters);
  report["memory"] = describeMemory(module, uses);
  return report;
}
