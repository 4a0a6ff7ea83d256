//===- Outputs.cpp - Names of what an exported program returns ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// torch.export flattens what a model returns and keeps its form as a tree: each
// inner node has the name of its class and a context, itself JSON, that holds
// the keys of a dict or the fields of a class in one way or another.
//
//===----------------------------------------------------------------------===//

#include "ir/capture/pt2/Outputs.h"

using namespace fsdp;
using namespace fsdp::capture;

namespace {

class TreeSpec {
public:
  explicit TreeSpec(const json::Object &module)
      : fields(json::findObject(module, "treespec_namedtuple_fields")) {}

  void visit(const json::Object &node);
  std::vector<OutputPath> take() { return std::move(leaves); }

private:
  std::vector<std::string> getNames(const json::Object &node, size_t count);
  static bool readNames(const json::Value &value, size_t count,
                        std::vector<std::string> &names);

  const json::Object *fields;
  OutputPath path;
  std::vector<OutputPath> leaves;
};

/// Whether `value` lists `count` strings or numbers.
bool TreeSpec::readNames(const json::Value &value, size_t count,
                         std::vector<std::string> &names) {
  const json::Array *list = json::toArray(value);
  if (!list || list->size() != count)
    return false;
  for (const json::Value &item : *list)
    if (std::optional<llvm::StringRef> text = json::toString(item))
      names.push_back(text->str());
    else if (std::optional<int64_t> number = json::toInt(item))
      names.push_back(std::to_string(*number));
  if (names.size() == count)
    return true;
  names.clear();
  return false;
}

/// Empty if children have positions only.
std::vector<std::string> TreeSpec::getNames(const json::Object &node,
                                            size_t count) {
  std::vector<std::string> names;
  std::optional<llvm::StringRef> context = json::findString(node, "context");
  if (!context || count == 0)
    return names;
  if (fields)
    if (const json::Object *tuple = json::findObject(*fields, *context))
      if (const json::Value *list = json::find(*tuple, "field_names"))
        if (readNames(*list, count, names))
          return names;
  llvm::Expected<json::Value> value = json::parse(*context);
  if (!value) {
    llvm::consumeError(value.takeError());
    return names;
  }
  // A dict's keys, or a list of lists of which one holds a class's fields.
  if (readNames(*value, count, names))
    return names;
  if (const json::Array *list = json::toArray(*value))
    for (const json::Value &item : *list)
      if (readNames(item, count, names))
        break;
  return names;
}

void TreeSpec::visit(const json::Object &node) {
  if (json::get(node, "type").is_null()) {
    leaves.push_back(path);
    return;
  }
  const json::Array &children = json::getArray(node, "children_spec");
  std::vector<std::string> names = getNames(node, children.size());
  for (size_t i = 0; i < children.size(); ++i) {
    if (path.steps.empty())
      path.isNamed = !names.empty();
    path.steps.push_back(names.empty() ? std::to_string(i) : names[i]);
    visit(json::asObject(children[i]));
    path.steps.pop_back();
  }
}

} // namespace

std::vector<OutputPath>
fsdp::capture::readPt2OutputPaths(const json::Object &module) {
  for (const json::Value &value : json::getArray(module, "module_call_graph")) {
    const json::Object &entry = json::asObject(value);
    if (json::getString(entry, "fqn") != "")
      continue;
    const json::Object *signature = json::findObject(entry, "signature");
    std::optional<llvm::StringRef> text =
        signature ? json::findString(*signature, "out_spec") : std::nullopt;
    if (!text)
      return {};
    llvm::Expected<json::Value> spec = json::parse(*text);
    if (!spec) {
      llvm::consumeError(spec.takeError());
      json::fail("a tree spec of what the model returns");
    }
    // [version, tree]
    const json::Array &pair = json::asArray(*spec);
    if (pair.size() != 2)
      json::fail("a tree spec of what the model returns");
    TreeSpec tree(module);
    tree.visit(json::asObject(pair[1]));
    return tree.take();
  }
  return {};
}
