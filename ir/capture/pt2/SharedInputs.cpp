//===- SharedInputs.cpp - Inputs that were one tensor ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/pt2/SharedInputs.h"

#include <map>

using namespace fsdp;
using namespace fsdp::capture;

/// Whether an argument within `value` is called `name`: what an operator's
/// formals are called stands beside them, not in an "as_tensor".
static bool mentions(const json::Value &value, llvm::StringRef name,
                     bool isArgument) {
  if (const json::Array *array = json::toArray(value))
    return llvm::any_of(*array, [&](const json::Value &element) {
      return mentions(element, name, isArgument);
    });
  const json::Object *object = json::toObject(value);
  return object && llvm::any_of(*object, [&](const auto &entry) {
           llvm::StringRef key = entry.first;
           if (isArgument && key == "name")
             return json::toString(entry.second) == name;
           bool isGraph = key == "graph";
           return mentions(entry.second, name,
                           !isGraph &&
                               (isArgument || key.starts_with("as_tensor") ||
                                key.starts_with("as_optional_tensor")));
         });
}

void fsdp::capture::checkSharedInputs(const Pt2Program &program,
                                      llvm::ArrayRef<uint32_t> objects) {
  if (objects.size() != program.userInputs.size())
    return;
  std::map<uint32_t, std::vector<const Pt2UserInput *>> byObject;
  for (auto [input, object] : llvm::zip(program.userInputs, objects))
    if (input.input && object != 0)
      byObject[object].push_back(&input);
  auto isRead = [&](const Pt2UserInput *input) {
    return llvm::any_of(
        llvm::ArrayRef<llvm::StringRef>{"nodes", "outputs"},
        [&](llvm::StringRef part) {
          const json::Value *all = json::find(program.getGraph(), part);
          return all && mentions(*all, input->placeholder, false);
        });
  };
  for (const auto &[object, inputs] : byObject) {
    auto read = llvm::find_if(inputs, isRead);
    if (inputs.size() < 2 || read == inputs.end() ||
        llvm::all_of(inputs, isRead))
      continue;
    auto nameOf = [&](const Pt2UserInput *input) {
      return program.inputs[*input->input].name;
    };
    std::string names;
    for (const Pt2UserInput *input : inputs)
      names += (names.empty()            ? "'"
                : input == inputs.back() ? "' and '"
                                         : "', '") +
               nameOf(input);
    throw Error(ErrorId::ModelNotSupported,
                "inputs " + names +
                    "' were one tensor when the model was exported, and its "
                    "program reads '" +
                    nameOf(*read) + "' for " +
                    (inputs.size() == 2 ? "both" : "all of them") +
                    ", whatever the others are given; export it again with a "
                    "tensor of its own for each: " +
                    nameOf(*read) + ".clone()");
  }
}
