//===- Summary.cpp - What a program says about its states ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/explain/Summary.h"

#include "llvm/ADT/StringExtras.h"

#include "ir/aten/Aten.h"
#include "ir/fsdp/Fsdp.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>

using namespace fsdp;
using namespace mlir;

/// Elements of the model's tensor, and the bytes that they are held in.
static void add(TensorSum &sum, StateOp state) {
  RankedTensorType type = state.getWholeType();
  ++sum.tensors;
  sum.elements += state.getModelType().getNumElements();
  sum.bytes +=
      type.getNumElements() * aten::getElementBytes(type.getElementType());
}

StatesSummary fsdp::summarizeStates(ModuleOp module) {
  StatesSummary summary;
  for (StateOp state : module.getOps<StateOp>()) {
    if (state.isFlat())
      continue; // what it holds is counted
    RankedTensorType type = state.getWholeType();
    switch (state.getRole()) {
    case Role::Parameter:
      add(summary.trainable, state);
      break;
    case Role::Frozen:
      add(summary.frozen, state);
      break;
    case Role::Buffer:
      add(summary.buffers, state);
      break;
    case Role::Constant:
      add(summary.constants, state);
      break;
    default:
      continue;
    }
    if (!state.getValue())
      summary.missing.push_back(
          {state.getSymName().str(), type.getShape().vec()});
    llvm::SmallVector<llvm::StringRef> names = state.getAllNames();
    if (names.size() > 1)
      summary.ties.emplace_back(names.begin(), names.end());
  }
  return summary;
}

std::vector<BucketSummary> fsdp::summarizeBuckets(ModuleOp module) {
  llvm::StringMap<llvm::StringRef> classes;
  for (auto op : module.getOps<ModuleInfoOp>())
    classes[op.getPath()] = op.getClassName();
  llvm::MapVector<llvm::StringRef, TensorSum> sums;
  for (StateOp state : module.getOps<StateOp>())
    if (std::optional<llvm::StringRef> bucket = state.getBucket();
        bucket && !state.isFlat())
      add(sums[*bucket], state);
  std::vector<BucketSummary> all;
  for (auto &[name, sum] : sums)
    all.push_back({name.str(), classes.lookup(name).str(), sum});
  return all;
}

std::string fsdp::describeShape(RankedTensorType type) {
  std::string text = "[";
  llvm::raw_string_ostream stream(text);
  llvm::interleave(type.getShape(), stream, ",");
  stream << "]";
  return text;
}

std::string fsdp::maskNumbers(llvm::StringRef text) {
  std::string masked;
  for (size_t i = 0; i < text.size();) {
    size_t end = i;
    while (end < text.size() && llvm::isDigit(text[end]))
      ++end;
    bool isStep = end > i && i > 0 && text[i - 1] == '.' && end < text.size() &&
                  (text[end] == '.' || text[end] == ' ');
    masked += isStep ? "*" : text.slice(i, std::max(end, i + 1)).str();
    i = std::max(end, i + 1);
  }
  return masked;
}

static std::string describe(StringAttr name, RankedTensorType type,
                            func::FuncOp function) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << name.getValue() << ": " << type.getElementType()
         << describeShape(type);
  auto module = function->getParentOfType<ModuleOp>();
  if (!llvm::hasSingleElement(module.getOps<func::FuncOp>()))
    stream << " of " << function.getSymName();
  return text;
}

std::vector<std::string> fsdp::describeInputs(ModuleOp module) {
  std::vector<std::string> all;
  for (auto function : module.getOps<func::FuncOp>())
    for (BlockArgument argument : function.getArguments()) {
      auto name = function.getArgAttrOfType<StringAttr>(argument.getArgNumber(),
                                                        kInputAttr);
      if (auto type = dyn_cast<RankedTensorType>(argument.getType());
          name && type)
        all.push_back(describe(name, type, function));
    }
  return all;
}

std::vector<std::string> fsdp::describeOutputs(ModuleOp module) {
  std::vector<std::string> all;
  for (auto function : module.getOps<func::FuncOp>())
    for (auto [i, result] : llvm::enumerate(function.getResultTypes())) {
      auto name = function.getResultAttrOfType<StringAttr>(i, kOutputAttr);
      if (auto type = dyn_cast<RankedTensorType>(result); name && type)
        all.push_back(describe(name, type, function));
    }
  return all;
}

/// What a cast of that cause is for.
static std::string describeCause(llvm::StringRef cause, llvm::StringRef name) {
  if (cause == "operand")
    return "operands of " + name.str();
  if (cause == "limit")
    return "greatest and least numbers in " + name.str();
  if (cause == "float8")
    return "float8 " + name.str() + "s";
  if (cause == "quantize")
    return "frozen parameters in blocks of " + name.str();
  if (cause == "wire")
    return name.str() + "s on their way";
  if (cause == "border")
    return "inputs and outputs of modules of their own policy";
  return cause.str() + "s";
}

std::vector<CastSummary> fsdp::summarizeCasts(ModuleOp module) {
  auto rows = module->getAttrOfType<ArrayAttr>(kCastsAttr);
  if (!rows)
    return {};
  auto print = [](TypeAttr type) {
    std::string text;
    llvm::raw_string_ostream(text) << type.getValue();
    return text;
  };
  std::vector<CastSummary> all;
  for (auto row : rows.getAsRange<DictionaryAttr>()) {
    CastSummary cast{describeCause(row.getAs<StringAttr>("cause").getValue(),
                                   row.getAs<StringAttr>("name").getValue()),
                     print(row.getAs<TypeAttr>("from")),
                     print(row.getAs<TypeAttr>("to")),
                     row.getAs<IntegerAttr>("count").getInt()};
    auto same = llvm::find_if(all, [&](const CastSummary &other) {
      return other.what == cast.what && other.from == cast.from &&
             other.to == cast.to;
    });
    if (same == all.end())
      all.push_back(std::move(cast));
    else
      same->count += cast.count;
  }
  return all;
}

std::string fsdp::describeMask(llvm::StringRef form) {
  static constexpr std::pair<llvm::StringLiteral, llvm::StringLiteral> forms[] =
      {
          {"all", "lets all be seen: none is left"},
          {"causal", "is causal: a flag of the kernel"},
          {"window", "is a window: keys outside are not multiplied"},
          {"prefix", "is causal behind a prefix: keys behind a block are not "
                     "multiplied"},
          {"chunks", "is causal in chunks: keys of others are not multiplied"},
          {"ranges", "lets ranges be seen: keys outside are not multiplied"},
          {"documents", "keeps documents of a row apart: others' keys are not "
                        "multiplied"},
          {"padding", "hides keys that data names: a number for each"},
          {"causal padding", "is causal, a flag of the kernel, and hides keys "
                             "that data names: a number for each"},
          {"added padding",
           "hides keys that data names: a tensor of numbers "
           "for each query, for the faster kernel, or the one that "
           "holds less"},
          {"tensor", "stays a tensor: it depends on data, or is none of the "
                     "forms that are known"},
          {"none", "there is none"},
      };
  for (auto [name, what] : forms)
    if (form == name)
      return what.str();
  return form.str();
}

std::string fsdp::describeKernel(DictionaryAttr row) {
  auto text = [&](const char *key) {
    auto value = row.getAs<StringAttr>(key);
    return value ? value.getValue().str() : std::string();
  };
  std::string why = text("why");
  std::string kernel = why.empty() ? text("kernel") : "none: " + why;
  if (auto sharing = row.getAs<IntegerAttr>("sharing"))
    kernel += ", " + std::to_string(sharing.getInt()) +
              " heads of queries for one of keys";
  return kernel;
}

std::vector<AttentionSummary> fsdp::summarizeAttention(ModuleOp module) {
  auto rows = module->getAttrOfType<ArrayAttr>(kAttentionAttr);
  if (!rows)
    return {};
  std::vector<AttentionSummary> all;
  for (auto row : rows.getAsRange<DictionaryAttr>()) {
    AttentionSummary each{
        row.getAs<StringAttr>("module").getValue().str(),
        describeMask(row.getAs<StringAttr>("mask").getValue()),
        describeKernel(row), row.getAs<IntegerAttr>("count").getInt()};
    auto same = std::ranges::find_if(all, [&](const AttentionSummary &other) {
      return other.mask == each.mask && other.kernel == each.kernel;
    });
    if (same == all.end())
      all.push_back(std::move(each));
    else
      same->count += each.count;
  }
  return all;
}

std::vector<std::pair<std::string, int64_t>>
fsdp::countClasses(ModuleOp module) {
  llvm::MapVector<llvm::StringRef, int64_t> counts;
  for (auto op : module.getOps<ModuleInfoOp>())
    ++counts[op.getClassName()];
  std::vector<std::pair<std::string, int64_t>> all;
  for (auto &[name, count] : counts)
    all.emplace_back(name.str(), count);
  std::ranges::stable_sort(all, std::greater<>(),
                           [](const auto &entry) { return entry.second; });
  return all;
}
