//===- OwnConfig.cpp - A config in keys of this project -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/config/Reading.h"

#include <algorithm>
#include <charconv>

using namespace fsdp;

/// Whether `path` is `other`, or something in it.
static bool isIn(std::string_view path, std::string_view other) {
  return path.starts_with(other) &&
         (path.size() == other.size() || path[other.size()] == '.' ||
          path[other.size()] == '[');
}

void Reading::forget(const std::string &path) {
  std::erase_if(own,
                [&](const auto &entry) { return isIn(entry.first, path); });
}

void Reading::become(const std::string &path, const Node &value) {
  becomes = true;
  if (value.IsNull())
    return;
  // A section without a key asks for its defaults, and is not one of them.
  bool hasMore = std::ranges::any_of(own, [&](const auto &entry) {
    return entry.first != path && isIn(entry.first, path);
  });
  if (hasMore && value.IsMap() && !value.size())
    return;
  std::erase_if(own, [&](const auto &entry) {
    return isIn(path, entry.first) && entry.first != path &&
           entry.second.IsMap() && !entry.second.size();
  });
  auto it = std::ranges::find(
      own, path, [](auto &entry) -> const auto & { return entry.first; });
  if (it == own.end())
    own.emplace_back(path, value);
  else
    it->second.reset(value);
}

namespace {
/// A key and what stands below it, in the order of the file.
struct Tree {
  std::string name;
  YAML::Node value; ///< of a leaf
  bool isLeaf = false;
  std::vector<Tree> below;

  Tree &open(std::string_view key) {
    for (Tree &each : below)
      if (each.name == key)
        return each;
    return below.emplace_back(Tree{std::string(key), {}, false, {}});
  }
  bool isList() const { return !below.empty() && below[0].name[0] == '['; }
};

/// "groups", "[0]", "lr" of "groups[0].lr"
std::vector<std::string> split(std::string_view path) {
  std::vector<std::string> parts(1);
  for (char letter : path)
    if (letter == '.')
      parts.emplace_back();
    else if (letter == '[')
      parts.emplace_back(1, letter);
    else
      parts.back() += letter;
  return parts;
}

/// Quoted where YAML would read something else.
std::string printText(const std::string &text, bool isQuoted) {
  auto isPlain = [](unsigned char letter) {
    return std::isalnum(letter) || letter == '_' || letter == '.' ||
           letter == '/' || letter == '-' || letter == '+' || letter == '%' ||
           letter == '(' || letter == ')';
  };
  if (!isQuoted && !text.empty() && text != "-" &&
      std::ranges::all_of(text, isPlain))
    return text;
  std::string quoted = "\"";
  for (char letter : text) {
    if (letter == '"' || letter == '\\')
      quoted += '\\';
    if (letter == '\n')
      quoted += "\\n";
    else if (letter == '\t')
      quoted += "\\t";
    else
      quoted += letter;
  }
  return quoted + '"';
}

} // namespace

std::string fsdp::printFlow(const YAML::Node &node) {
  std::string text;
  switch (node.Type()) {
  case YAML::NodeType::Undefined:
  case YAML::NodeType::Null:
    return "null";
  case YAML::NodeType::Scalar:
    return printText(node.Scalar(), node.Tag() == "!");
  case YAML::NodeType::Sequence:
    for (const auto &each : node)
      text += (text.empty() ? "" : ", ") + printFlow(each);
    return "[" + text + "]";
  case YAML::NodeType::Map:
    for (const auto &each : node)
      text += (text.empty() ? "" : ", ") + printFlow(each.first) + ": " +
              printFlow(each.second);
    return "{" + text + "}";
  }
  return text;
}

namespace {
std::string printFlow(const Tree &tree) {
  if (tree.isLeaf)
    return fsdp::printFlow(tree.value);
  std::string text;
  for (const Tree &each : tree.below)
    text += (text.empty() ? "" : ", ") +
            (tree.isList() ? "" : each.name + ": ") + printFlow(each);
  return tree.isList() ? "[" + text + "]" : "{" + text + "}";
}
} // namespace

std::string Reading::printOwn() const {
  Tree root;
  for (const auto &[path, value] : own) {
    Tree *at = &root;
    for (const std::string &part : split(path))
      at = &at->open(part);
    at->value = value;
    at->isLeaf = at->below.empty();
  }
  std::string text;
  for (const Tree &each : root.below) {
    if (each.isLeaf || each.isList() || each.below.size() < 4) {
      text += each.name + ": " + printFlow(each) + "\n";
      continue;
    }
    text += each.name + ":\n";
    for (const Tree &key : each.below)
      text += "  " + key.name + ": " + printFlow(key) + "\n";
  }
  return text;
}
