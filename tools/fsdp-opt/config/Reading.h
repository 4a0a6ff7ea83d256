//===- Reading.h - A config while it is read --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TOOLS_FSDPOPT_CONFIG_READING_H
#define FSDP_TOOLS_FSDPOPT_CONFIG_READING_H

#include "support/yaml/Reader.h"
#include "tools/fsdp-opt/config/Config.h"

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fsdp {

class Reading;
struct Rename;

/// What no machine has, and no training takes: sums and products of these stay
/// far from overflow.
inline constexpr int64_t kMostRanks = 1 << 20;
inline constexpr int64_t kMostSteps = 1'000'000'000'000;

/// A value, and what a message about it says.
struct Value {
  Reading &reading;
  std::string path; ///< "optimizer.groups[0].lr", also under another name
  std::string key;  ///< as it is written: "lr", "learning_rate"
  YAML::Node node;

  const YamlReader &reader() const;
  /// "'lr': " + message, at the value.
  [[noreturn]] void fail(const std::string &message) const;
  /// "'lr': expected …, found …", at the value.
  [[noreturn]] void failRange(const std::string &expected) const;
  [[noreturn]] void failType(std::string_view expected) const;
};

using ReadValue = std::function<void(const Value &)>;

/// A key that the file has.
struct Given {
  YAML::Node name, value;
  bool isForeign = false; ///< another tool's name
};

/// The file, the config that it becomes, and all that is to be said of it. A
/// mistake is kept, to be told with the others.
class Reading {
  using Node = YAML::Node;

public:
  Reading(const std::string &file, std::optional<int64_t> world,
          const Node &root)
      : read(file), root(root), world(world) {}

  /// The keys of `map`, which belong to `section` ("optimizer.groups") and
  /// stand at `path` ("optimizer.groups[0]"). `lookUp` gives the reader of a
  /// key of that section, or an empty one.
  void
  readSection(std::string_view section, const std::string &path,
              const Node &map,
              const std::function<ReadValue(std::string_view key)> &lookUp);

  /// Keeps a mistake of `run` as one of `path`.
  void collect(const std::string &path, const std::function<void()> &run);
  /// Whether something at, in or around `path` is wrong.
  bool hasProblem(std::string_view path) const;
  /// The first mistake, with a line for each of the others.
  void throwProblems() const;

  /// The key of that path, if it is there.
  const Given *find(const std::string &path) const;
  /// Says that a key stands there, which may be said once.
  void take(const std::string &path, const Given &key);
  /// Says that the key `by` of another tool asks for what `path` says, unless
  /// the file has that itself: messages name it instead.
  void imply(const std::string &path, const Value &by);

  void addNote(const Node &node, const std::string &text) {
    result.notes.push_back(read.describePlace(node) + ": " + text);
  }
  void addMinor(const Node &node, const std::string &text) {
    result.minor.push_back(read.describePlace(node) + ": " + text);
  }
  void addWarning(const Node &node, const std::string &text) {
    result.warnings.push_back(read.describePlace(node) + ": " + text);
  }
  /// Refuses what stands at `path`, or the file if that is not there.
  [[noreturn]] void refuse(const std::string &path, const std::string &message,
                           ErrorId id = ErrorId::ConfigBadValue) const;
  /// "'key'", as it is written, here or under another tool's name; if it is
  /// not there at all, by its own name.
  std::string quote(const std::string &path) const;
  /// "'key' has no effect …", if the file has it.
  void noteWithoutEffect(const std::string &path, const std::string &why);

  const YamlReader read;
  const Node root;
  LoadedConfig result;
  std::optional<int64_t> world; ///< --world, or what the file says of it
  std::string strategy;         ///< of FSDP1, by its name
  /// `fsdp: auto_wrap`: what fsdp_config has arguments of is the policy.
  bool wrapsByArguments = false;
  /// Of the rate, what a schedule ends at.
  std::optional<double> minRate;
  /// Of transformers' schedules; checked once the schedule is known.
  std::vector<Given> scheduleArguments;

private:
  void readKey(std::string_view section, std::string_view own,
               const std::string &path, const Given &entry,
               const std::function<ReadValue(std::string_view)> &lookUp);
  void readRenamed(const Rename &rename, const Given &entry);
  [[noreturn]] void failUnknown(std::string_view section, const Node &name);

  struct Problem {
    std::string path;
    Error error;
  };
  std::vector<Problem> problems;
  std::map<std::string, Given, std::less<>> given, implied;
};

/// "optimizer.lr"
std::string joinPath(std::string_view section, std::string_view key);

} // namespace fsdp

#endif // FSDP_TOOLS_FSDPOPT_CONFIG_READING_H
