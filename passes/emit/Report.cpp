//===- Report.cpp - What a step moves and needs, as JSON ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/emit/Report.h"

#include "ir/aten/Aten.h"
#include "passes/analysis/Programs.h"
#include "passes/emit/Types.h"
#include "runtime/plan/DType.h"

#include <map>

using namespace mlir;
using namespace fsdp;

/// Name of a group as configs call it.
static std::string groupName(GroupAttr group) {
  return ("dp_" + group.getName().getValue()).str();
}

static llvm::json::Object describe(Operation *start) {
  auto group = start->getAttrOfType<GroupAttr>("group");
  auto future = cast<FutureType>(start->getResult(0).getType());
  auto bucket = start->getAttrOfType<StringAttr>("bucket");
  bool gathers = isa<AllGatherStartOp>(start);
  bool scatters = isa<ReduceScatterStartOp>(start);
  int64_t bytes = 0;
  std::string dtype;
  for (auto [input, type] :
       llvm::zip_equal(start->getOperands(), future.getTensors())) {
    auto own = cast<RankedTensorType>(gathers ? input.getType() : type);
    int64_t copies = gathers || scatters ? group.getSize() : 1;
    bytes += aten::getStorageBytes(own) * copies;
    if (std::optional<plan::DType> known = toDType(own.getElementType()))
      dtype = dtypeName(*known);
  }
  return llvm::json::Object{
      {"kind", gathers    ? "all_gather"
               : scatters ? "reduce_scatter"
                          : "all_reduce"},
      {"group", groupName(group)},
      {"dtype", dtype},
      {"count", 1},
      {"members", static_cast<int64_t>(start->getNumOperands())},
      {"bytes", bytes},
      {"bucket", bucket ? bucket.getValue() : StringRef()},
  };
}

/// One step by `program`.
static llvm::json::Object describe(func::FuncOp program) {
  llvm::json::Array collectives, metrics;
  std::map<std::string, int64_t> counts;
  for (Operation &op : program.getBody().front()) {
    ++counts[op.getName().getStringRef().str()];
    if (isa<AllGatherStartOp, ReduceScatterStartOp>(op)) {
      collectives.push_back(describe(&op));
    } else if (isa<AllReduceStartOp>(op)) {
      auto bucket = op.getAttrOfType<StringAttr>("bucket");
      bool isMetric = bucket && bucket.getValue() == kMetricsBucket;
      (isMetric ? metrics : collectives).push_back(describe(&op));
    }
  }
  llvm::json::Object ops;
  for (const auto &[name, count] : counts)
    ops[name] = count;
  return llvm::json::Object{{"collectives", std::move(collectives)},
                            {"metrics", std::move(metrics)},
                            {"ops", std::move(ops)}};
}

llvm::json::Value fsdp::buildReport(ModuleOp module) {
  SmallVector<func::FuncOp> programs = getPrograms(module);
  llvm::json::Object report;
  llvm::json::Array each;
  for (func::FuncOp program : programs) {
    llvm::json::Object step = describe(program);
    if (program == programs.front())
      report = step;
    step["name"] = program.getSymName();
    each.push_back(std::move(step));
  }
  if (programs.size() > 1)
    report["programs"] = std::move(each);
  llvm::json::Object memory;
  if (auto planned = module->getAttrOfType<DictionaryAttr>(kMemoryAttr))
    for (NamedAttribute entry : planned)
      if (auto bytes = dyn_cast<IntegerAttr>(entry.getValue()))
        memory[entry.getName().getValue()] = bytes.getInt();
  report["memory"] = std::move(memory);
  return report;
}
