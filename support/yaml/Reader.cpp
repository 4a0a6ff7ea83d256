//===- Reader.cpp - Typed values out of YAML ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "support/yaml/Reader.h"

#include "support/Nearest.h"

#include <charconv>
#include <cmath>
#include <optional>

using namespace fsdp;

namespace {
/// The text of a scalar that may stand for a number or a truth value.
std::optional<std::string> getPlain(const YAML::Node &node) {
  if (!node.IsScalar() || node.Tag() == "!" || node.Tag().ends_with(":str"))
    return std::nullopt;
  return node.Scalar();
}

std::optional<bool> toBool(const YAML::Node &node) {
  bool value;
  if (getPlain(node) && YAML::convert<bool>::decode(node, value))
    return value;
  return std::nullopt;
}

std::optional<int64_t> toInt(const YAML::Node &node) {
  std::optional<std::string> text = getPlain(node);
  if (!text)
    return std::nullopt;
  std::erase(*text, '_');
  int64_t value = 0;
  const char *begin = text->data(), *end = begin + text->size();
  if (begin != end && *begin == '+')
    ++begin;
  auto [rest, failure] = std::from_chars(begin, end, value);
  if (failure != std::errc() || rest != end || begin == end)
    return std::nullopt;
  return value;
}

std::optional<double> toDouble(const YAML::Node &node) {
  double value;
  if (getPlain(node) && YAML::convert<double>::decode(node, value))
    return value;
  return std::nullopt;
}

std::string quote(std::string_view text) {
  return "'" + std::string(text) + "'";
}
} // namespace

std::string fsdp::describeValue(const YAML::Node &node) {
  if (!node.IsDefined() || node.IsNull())
    return "nothing";
  if (node.IsSequence())
    return "a list";
  if (node.IsMap())
    return "a map";
  if (toBool(node))
    return "the truth value " + node.Scalar();
  if (toInt(node) || toDouble(node))
    return "the number " + node.Scalar();
  return "the string " + quote(node.Scalar());
}

bool YamlReader::isBool(const YAML::Node &node) {
  return toBool(node).has_value();
}

bool YamlReader::isInt(const YAML::Node &node) {
  return toInt(node).has_value();
}

bool YamlReader::isNumber(const YAML::Node &node) {
  return toDouble(node).has_value();
}

std::string YamlReader::describePlace(const YAML::Node &node) const {
  YAML::Mark mark = node.Mark();
  if (mark.is_null())
    return file;
  return file + ":" + std::to_string(mark.line + 1) + ":" +
         std::to_string(mark.column + 1);
}

void YamlReader::fail(ErrorId id, const YAML::Node &node,
                      const std::string &message) const {
  throw Error(id, describePlace(node) + ": " + message);
}

void YamlReader::failType(const YAML::Node &node, std::string_view key,
                          std::string_view expected) const {
  fail(ErrorId::ConfigWrongType, node,
       quote(key) + ": expected " + std::string(expected) + ", found " +
           describeValue(node));
}

bool YamlReader::readBool(const YAML::Node &node, std::string_view key) const {
  if (std::optional<bool> value = toBool(node))
    return *value;
  failType(node, key, "true or false");
}

int64_t YamlReader::readInt(const YAML::Node &node,
                            std::string_view key) const {
  if (std::optional<int64_t> value = toInt(node))
    return *value;
  failType(node, key, "a whole number");
}

double YamlReader::readDouble(const YAML::Node &node,
                              std::string_view key) const {
  std::optional<double> value = toDouble(node);
  if (!value)
    failType(node, key, "a number");
  if (!std::isfinite(*value))
    fail(ErrorId::ConfigBadValue, node,
         quote(key) + ": expected a finite number, found " + node.Scalar());
  return *value;
}

std::string YamlReader::readString(const YAML::Node &node,
                                   std::string_view key) const {
  if (!node.IsScalar() || node.Scalar().empty())
    failType(node, key, "a string");
  return node.Scalar();
}

std::vector<std::string> YamlReader::readStrings(const YAML::Node &node,
                                                 std::string_view key) const {
  std::vector<std::string> all;
  auto add = [&](const YAML::Node &item) {
    std::string text = readString(item, key);
    for (size_t begin = 0; begin <= text.size();) {
      size_t end = std::min(text.find(',', begin), text.size());
      size_t first = text.find_first_not_of(' ', begin);
      if (first >= end)
        fail(ErrorId::ConfigBadValue, item,
             quote(key) + ": expected a name between the commas of " +
                 quote(text));
      size_t last = text.find_last_not_of(' ', end - 1);
      all.push_back(text.substr(first, last - first + 1));
      begin = end + 1;
    }
  };
  if (node.IsSequence() && node.size())
    for (const YAML::Node &item : node)
      add(item);
  else if (node.IsScalar())
    add(node);
  else
    failType(node, key, "a name or a list of names");
  return all;
}

std::string
YamlReader::readChoice(const YAML::Node &node, std::string_view key,
                       std::span<const std::string_view> choices) const {
  std::string text = readString(node, key);
  std::string list;
  for (std::string_view choice : choices) {
    if (text == choice)
      return text;
    list += (list.empty() ? "" : ", ") + std::string(choice);
  }
  std::string_view nearest = findNearest(text, choices);
  fail(ErrorId::ConfigBadValue, node,
       quote(key) + ": expected one of " + list + ", found " + quote(text) +
           (nearest.empty() ? "" : "; did you mean " + quote(nearest) + "?"));
}

void fsdp::refuseYaml(const std::string &file,
                      const YAML::Exception &exception) {
  std::string place = file;
  if (!exception.mark.is_null())
    place += ":" + std::to_string(exception.mark.line + 1) + ":" +
             std::to_string(exception.mark.column + 1);
  throw Error(ErrorId::ConfigNotReadable, place + ": " + exception.msg);
}
