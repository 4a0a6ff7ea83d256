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

llvm::json::Value fsdp::buildReport(ModuleOp module) {
  llvm::json::Array collectives, metrics;
  std::map<std::string, int64_t> counts;
  for (func::FuncOp program : getPrograms(module))
    for (Operation &op : program.getBody().front()) {
      ++counts[op.getName().getStringRef().str()];
      if (isa<AllGatherStartOp, ReduceScatterStartOp>(op))
        collectives.push_back(describe(&op));
      else if (isa<AllReduceStartOp>(op)) {
        auto bucket = op.getAttrOfType<StringAttr>("bucket");
        bool isMetric = bucket && bucket.getValue() == kMetricsBucket;
        (isMetric ? metrics : collectives).push_back(describe(&op));
      }
    }
  llvm::json::Object ops, memory;
  for (const auto &[name, count] : counts)
    ops[name] = count;
  if (auto planned = module->getAttrOfType<DictionaryAttr>(kMemoryAttr))
    for (NamedAttribute entry : planned)
      if (auto bytes = dyn_cast<IntegerAttr>(entry.getValue()))
        memory[entry.getName().getValue()] = bytes.getInt();
  return llvm::json::Object{{"collectives", std::move(collectives)},
                            {"metrics", std::move(metrics)},
                            {"memory", std::move(memory)},
                            {"ops", std::move(ops)}};
}
