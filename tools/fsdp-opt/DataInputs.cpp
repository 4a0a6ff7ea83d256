//===- DataInputs.cpp - Which inputs take tokens -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/DataInputs.h"

#include "passes/analysis/Programs.h"
#include "runtime/support/Error.h"
#include "runtime/support/Nearest.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/Support/raw_ostream.h"

using namespace fsdp;
using namespace mlir;

static llvm::MapVector<StringRef, Type> getInputs(func::FuncOp program) {
  llvm::MapVector<StringRef, Type> inputs;
  for (BlockArgument argument : program.getArguments())
    if (auto name = program.getArgAttrOfType<StringAttr>(
            argument.getArgNumber(), kInputAttr))
      inputs.insert({name.getValue(), argument.getType()});
  return inputs;
}

static bool takesTokens(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && tensor.getRank() == 2 &&
         (tensor.getElementType().isSignlessInteger(64) ||
          tensor.getElementType().isSignlessInteger(32));
}

static void checkInput(const llvm::MapVector<StringRef, Type> &inputs,
                       const std::string &name, const std::string &place) {
  auto found = inputs.find(name);
  if (found == inputs.end()) {
    std::vector<std::string_view> names;
    std::string list;
    for (const auto &[each, type] : inputs) {
      names.emplace_back(each);
      list += (list.empty() ? "" : ", ") + each.str();
    }
    std::string_view nearest = findNearest(name, names);
    throw Error(ErrorId::ConfigBadValue,
                place + ": 'data': the model has no input '" + name + "'" +
                    (nearest.empty()
                         ? "; it has " + list
                         : "; did you mean '" + std::string(nearest) + "'?"));
  }
  if (takesTokens(found->second))
    return;
  std::string type;
  llvm::raw_string_ostream(type) << found->second;
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
    llvm::MapVector<StringRef, Type> inputs = getInputs(program);
    for (const auto *names : {&data.inputs, &data.targets})
      for (const std::string &name : *names)
        checkInput(inputs, name, config.data->place);
  }
}
