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
    if (!location.file.empty() && file.contains("/torch/nn/"))
      continue;
    location.file = file.str();
    location.line = number;
  }
  return location;
}

const json::Object *fsdp::capture::getPt2SubGraph(const json::Object &node) {
  for (const json::Value &input : json::getArray(node, "inputs")) {
    auto [tag, value] = json::getUnion(json::get(json::asObject(input), "arg"));
    if (tag == "as_graph")
      return &json::getObject(json::asObject(value), "graph");
  }
  return nullptr;
}
