//===- Pt2Metadata.cpp - Where a node of an archive comes from ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/Pt2Metadata.h"

#include "llvm/ADT/StringRef.h"

using namespace fsdp::capture;

/// A module that is called more than once has "@1" and so on behind its path.
static std::string dropCallCount(llvm::StringRef path) {
  auto [name, count] = path.rsplit('@');
  unsigned number;
  return (count.getAsInteger(10, number) ? path : name).str();
}

static llvm::StringRef getMetadata(const json::Object &node,
                                   llvm::StringRef key) {
  if (const json::Object *metadata = node.getObject("metadata"))
    if (std::optional<llvm::StringRef> text = metadata->getString(key))
      return *text;
  return {};
}

void fsdp::capture::forEachPt2Module(
    const json::Object &node,
    llvm::function_ref<void(const ModuleInfo &)> visit) {
  // "key,path,package.Class;key,path,package.Class", outermost first.
  llvm::StringRef rest = getMetadata(node, "nn_module_stack");
  while (!rest.empty()) {
    llvm::StringRef entry;
    std::tie(entry, rest) = rest.split(';');
    auto [path, className] = entry.split(',').second.rsplit(',');
    visit({dropCallCount(path), className.rsplit('.').second.empty()
                                    ? className.str()
                                    : className.rsplit('.').second.str()});
  }
}

Location fsdp::capture::getPt2Location(const json::Object &node) {
  Location location;
  forEachPt2Module(
      node, [&](const ModuleInfo &module) { location.module = module.path; });
  // As Python prints it, innermost call last. PyTorch's own modules say less
  // than the user's line that calls them.
  llvm::StringRef rest = getMetadata(node, "stack_trace");
  while (!rest.empty()) {
    llvm::StringRef line;
    std::tie(line, rest) = rest.split('\n');
    line = line.ltrim();
    if (!line.consume_front("File \""))
      continue;
    auto [file, after] = line.split("\", line ");
    int64_t number;
    if (after.split(',').first.getAsInteger(10, number))
      continue;
    // Nor does code that torch.export has made.
    if (file.starts_with("<eval_with_key>") ||
        (!location.file.empty() && file.contains("/torch/nn/")))
      continue;
    location.file = file.str();
    location.line = number;
  }
  return location;
}

std::string fsdp::capture::getPt2ValueName(const json::Value &argument) {
  auto [tag, value] = json::getUnion(argument);
  const json::Object *object = value.getAsObject();
  if (!object)
    return "";
  bool isSymbolic =
      tag == "as_sym_int" || tag == "as_sym_float" || tag == "as_sym_bool";
  if (tag != "as_tensor" && !isSymbolic)
    return "";
  return object->getString(isSymbolic ? "as_name" : "name").value_or("").str();
}
