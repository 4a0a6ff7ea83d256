//===- Reader.h - Typed values out of YAML ----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_SUPPORT_YAML_READER_H
#define FSDP_SUPPORT_YAML_READER_H

#include "support/Error.h"

#include <yaml-cpp/yaml.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fsdp {

/// Reads values whose errors name file, line and column, what was expected and
/// what was found. `key` is the value's name as a person writes it. Quoted
/// scalars are strings and nothing else.
class YamlReader {
public:
  explicit YamlReader(std::string file) : file(std::move(file)) {}

  /// "fsdp.yaml:3:5"
  std::string describePlace(const YAML::Node &node) const;

  [[noreturn]] void fail(ErrorId id, const YAML::Node &node,
                         const std::string &message) const;
  [[noreturn]] void failType(const YAML::Node &node, std::string_view key,
                             std::string_view expected) const;

  bool readBool(const YAML::Node &node, std::string_view key) const;
  int64_t readInt(const YAML::Node &node, std::string_view key) const;
  double readDouble(const YAML::Node &node, std::string_view key) const;
  std::string readString(const YAML::Node &node, std::string_view key) const;
  /// A string, a list of strings, or names with commas between them.
  std::vector<std::string> readStrings(const YAML::Node &node,
                                       std::string_view key) const;
  /// One of `choices`; suggests the nearest.
  std::string readChoice(const YAML::Node &node, std::string_view key,
                         std::span<const std::string_view> choices) const;

  static bool isBool(const YAML::Node &node);
  static bool isInt(const YAML::Node &node);
  static bool isNumber(const YAML::Node &node);

  const std::string &getFile() const { return file; }

private:
  std::string file;
};

/// Of text that is no YAML: names the file, and the place if it is known.
/// Throws fsdp::Error (ConfigNotReadable).
[[noreturn]] void refuseYaml(const std::string &file,
                             const YAML::Exception &exception);

/// What a person would call the value: "the string 'abc'", "a list", …
std::string describeValue(const YAML::Node &node);

} // namespace fsdp

#endif // FSDP_SUPPORT_YAML_READER_H
