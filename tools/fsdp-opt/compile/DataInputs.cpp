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

static void checkInput(ArrayRef<NamedInput> inputs, const std::string &name,
                       const std::string &place) {
  const auto *found = llvm::find_if(
      inputs, [&](const NamedInput &input) { return input.name == name; });
  if (found == inputs.end()) {
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
  if (takesTokens(found->type))
    return;
  std::string type;
  llvm::raw_string_ostream(type) << found->type;
  throw Error(ErrorId::ConfigBadValue,
              place + ": 'data': input '" + name +
                  "' cannot take tokens; expected int64 or int32 of two dims, "
                  "rows and tokens, found " +
                  type);
}

void fsdp::checkDataInputs(ModuleOp module, const Config &config) {
  if (!config.data)
    return;
  const plan::DataT &data = config.data->data;
  for (func::FuncOp program : getPrograms(module)) {
    SmallVector<NamedInput> inputs = getNamedInputs(program);
    for (const auto *names : {&data.inputs, &data.targets})
      for (const std::string &name : *names)
        checkInput(inputs, name, config.data->place);
  }
}
