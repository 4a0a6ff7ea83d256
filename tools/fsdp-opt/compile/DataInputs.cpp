//===- DataInputs.cpp - Which inputs take tokens -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/compile/DataInputs.h"

#include "passes/analysis/Programs.h"
#include "support/Error.h"
#include "support/Nearest.h"
#include "tools/fsdp-opt/input/Diagnostics.h"

#include "llvm/Support/raw_ostream.h"

#include <set>

using namespace fsdp;
using namespace mlir;

SmallVector<NamedInput> fsdp::getNamedInputs(func::FuncOp program) {
  SmallVector<NamedInput> inputs;
  for (BlockArgument argument : program.getArguments()) {
    auto name = program.getArgAttrOfType<StringAttr>(argument.getArgNumber(),
                                                     kInputAttr);
    auto type = dyn_cast<RankedTensorType>(argument.getType());
    if (name && type)
      inputs.push_back({name.str(), type});
  }
  return inputs;
}

std::vector<std::string> fsdp::listUnread(ModuleOp module) {
  std::vector<std::string> names;
  std::set<std::string> read;
  for (func::FuncOp program : getPrograms(module))
    for (BlockArgument argument : program.getArguments()) {
      auto name = program.getArgAttrOfType<StringAttr>(argument.getArgNumber(),
                                                       kInputAttr);
      if (!name)
        continue;
      if (!argument.use_empty())
        read.insert(name.str());
      if (!llvm::is_contained(names, name.str()))
        names.push_back(name.str());
    }
  std::erase_if(names,
                [&](const std::string &name) { return read.contains(name); });
  return names;
}

void fsdp::warnOfUnread(ModuleOp module) {
  for (const std::string &name : listUnread(module))
    addWarning("warning: input '" + name +
               "' is read by nothing: what it is given changes no result; if "
               "it was one tensor with another input when the model was "
               "exported, export it again with a tensor of its own for each, "
               "such as labels.clone()");
}

bool fsdp::takesTokens(RankedTensorType type) {
  return type.getRank() == 2 && (type.getElementType().isSignlessInteger(64) ||
                                 type.getElementType().isSignlessInteger(32));
}

/// The model's input of that name.
static const NamedInput &findInput(ArrayRef<NamedInput> inputs,
                                   const std::string &name,
                                   const std::string &place) {
  const auto *found = llvm::find_if(
      inputs, [&](const NamedInput &input) { return input.name == name; });
  if (found != inputs.end())
    return *found;
  std::vector<std::string_view> names;
  std::string list;
  for (const NamedInput &input : inputs) {
    names.emplace_back(input.name);
    list += (list.empty() ? "" : ", ") + input.name;
  }
  std::string_view nearest = findNearest(name, names);
  throw Error(ErrorId::ConfigBadValue,
              place + ": 'data': the model has no input '" + name + "'" +
                  (nearest.empty()
                       ? "; it has " + list
                       : "; did you mean '" + std::string(nearest) + "'?"));
}

[[noreturn]] static void refuseType(const NamedInput &input,
                                    const std::string &place,
                                    const std::string &expected) {
  std::string type;
  llvm::raw_string_ostream(type) << input.type;
  throw Error(ErrorId::ConfigBadValue, place + ": 'data': input '" +
                                           input.name + "' " + expected +
                                           ", found " + type);
}

static void checkTokens(const NamedInput &input, const std::string &place) {
  if (!takesTokens(input.type))
    refuseType(input, place,
               "cannot take tokens; expected int64 or int32 of two dims, rows "
               "and tokens");
}

void fsdp::checkDataInputs(ModuleOp module, const Config &config) {
  if (!config.data)
    return;
  const plan::DataT &data = config.data->data;
  const std::string &place = config.data->place;
  for (func::FuncOp program : getPrograms(module)) {
    SmallVector<NamedInput> inputs = getNamedInputs(program);
    for (const auto *names : {&data.inputs, &data.targets})
      for (const std::string &name : *names)
        checkTokens(findInput(inputs, name, place), place);
    for (const auto &padding : data.pad)
      findInput(inputs, padding->input, place);
    if (!data.labels.empty())
      findInput(inputs, data.labels, place);
    if (data.label_count.empty())
      continue;
    const NamedInput &count = findInput(inputs, data.label_count, place);
    Type element = count.type.getElementType();
    if (count.type.getRank() != 0 || !(element.isF32() || element.isF64()))
      refuseType(count, place,
                 "cannot take a share of a number of labels; expected float32 "
                 "or float64 without dims");
  }
}
