//===- Metadata.cpp - Where a node of an archive comes from ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/pt2/Metadata.h"

#include "llvm/ADT/StringRef.h"

using namespace fsdp::capture;

/// A module that is called more than once has "@1" and so on behind its path.
static std::string dropCallCount(llvm::StringRef path) {
  auto [name, count] = path.rsplit('@');
  unsigned number;
  return (count.getAsInteger(10, number) ? path : name).str();
}

llvm::StringRef fsdp::capture::getPt2NodeMetadata(const json::Object &node,
                                                  llvm::StringRef key) {
  if (const json::Object *metadata = json::findObject(node, "metadata"))
    if (std::optional<llvm::StringRef> text = json::findString(*metadata, key))
      return *text;
  return {};
}

void fsdp::capture::forEachPt2Module(
    const json::Object &node,
    llvm::function_ref<void(const ModuleInfo &)> visit) {
  // "key,path,package.Class;key,path,package.Class", outermost first.
  llvm::StringRef rest = getPt2NodeMetadata(node, "nn_module_stack");
  while (!rest.empty()) {
    llvm::StringRef entry;
    std::tie(entry, rest) = rest.split(';');
    auto [path, className] = entry.split(',').second.rsplit(',');
    // What a strict export calls the root inside of some regions.
    if (path.consume_front("_export_root"))
      path.consume_front(".");
    visit({dropCallCount(path), className.rsplit('.').second.empty()
                                    ? className.str()
                                    : className.rsplit('.').second.str()});
  }
}

void fsdp::capture::forEachPt2Frame(
    const json::Object &node,
    llvm::function_ref<void(const Pt2Frame &)> visit) {
  //   File "model.py", line 12, in forward
  //     return self.act(x)
  llvm::StringRef rest = getPt2NodeMetadata(node, "stack_trace");
  Pt2Frame frame;
  auto finish = [&] {
    if (!frame.file.empty())
      visit(frame);
    frame = {};
  };
  while (!rest.empty()) {
    llvm::StringRef line;
    std::tie(line, rest) = rest.split('\n');
    line = line.trim();
    if (!line.starts_with("File \"")) {
      if (frame.text.empty())
        frame.text = line;
      continue;
    }
    finish();
    auto [file, after] = line.drop_front(6).split("\", line ");
    auto [number, name] = after.split(", in ");
    if (number.getAsInteger(10, frame.line))
      continue;
    frame.file = file;
    frame.function = name;
  }
  finish();
}

Location fsdp::capture::getPt2Location(const json::Object &node) {
  Location location;
  forEachPt2Module(
      node, [&](const ModuleInfo &module) { location.module = module.path; });
  // PyTorch's own modules say less than the user's line that calls them, nor
  // does code that torch.export has made say anything.
  forEachPt2Frame(node, [&](const Pt2Frame &frame) {
    if (frame.file.starts_with("<eval_with_key>") ||
        (!location.file.empty() && frame.file.contains("/torch/nn/")))
      return;
    location.file = frame.file.str();
    location.line = frame.line;
  });
  return location;
}

std::string fsdp::capture::getPt2ValueName(const json::Value &argument) {
  auto [tag, value] = json::getUnion(argument);
  const json::Object *object = json::toObject(value);
  if (!object)
    return "";
  bool isSymbolic =
      tag == "as_sym_int" || tag == "as_sym_float" || tag == "as_sym_bool";
  if (tag != "as_tensor" && !isSymbolic)
    return "";
  return json::findString(*object, isSymbolic ? "as_name" : "name")
      .value_or("")
      .str();
}
