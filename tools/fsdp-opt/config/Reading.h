//===- Reading.h - A config while it is read --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TOOLS_FSDPOPT_CONFIG_READING_H
#define FSDP_TOOLS_FSDPOPT_CONFIG_READING_H

#include "support/yaml/Reader.h"
#include "tools/fsdp-opt/config/Config.h"

#include <functional>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fsdp {

class Reading;
struct ForeignKey;

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

/// What another tool's file says of adapters.
struct AdapterKey {
  std::string key;
  YAML::Node value, as; ///< as it is written, and by PEFT's words
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
  /// "error[…]: …" of each.
  std::vector<std::string> listProblems() const;

  /// Says what becomes of the key that is being read.
  void classify(KeyOutcome outcome, const std::string &text);
  /// Says what the config has at a path in keys of this project; the last
  /// word counts.
  void become(const std::string &path, const Node &value);
  template <typename T>
  void becomeValue(const std::string &path, const T &value) {
    become(path, Node(value));
  }
  /// Takes back what stands at or below it.
  void forget(const std::string &path);
  /// The config in keys of this project.
  std::string printOwn() const;

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
  /// Without a number of ranks: the least that the file allows.
  bool mayLackRanks = false;
  std::string strategy;          ///< of FSDP1, by its name
  bool isStrategyBeside = false; ///< the file says reshard_after_forward, too
  /// `fsdp: auto_wrap`: what fsdp_config has arguments of is the policy.
  bool wrapsByArguments = false;
  /// Of the rate, what a schedule ends at.
  std::optional<double> minRate;
  bool isMinOfAll = false; ///< schedules that go down, not of cosine alone
  bool growsQuadratically = false;     ///< a cosine's rate, in Axolotl
  std::optional<double> constantRatio; ///< of it, too
  /// Biases and norms have no weight decay, as in transformers.
  bool sparesNorms = false;
  std::string wireDType;    ///< what DeepSpeed's gradients travel in
  bool pagesStates = false; ///< the optimizer's, as bitsandbytes does
  /// What other tools' files say of adapters, by PEFT's names.
  std::map<std::string, AdapterKey, std::less<>> adapterKeys;
  /// What they say of a base in codes, by keys of `quantize`; "by": who asks
  /// for it.
  std::map<std::string, AdapterKey, std::less<>> quantizeKeys;
  /// What is wrong in a file that this one names.
  std::vector<std::string> includedProblems;
  /// Of transformers' schedules; checked once the schedule is known.
  std::vector<Given> scheduleArguments;

private:
  void readKey(std::string_view section, std::string_view own,
               const std::string &path, const Given &entry,
               const std::function<ReadValue(std::string_view)> &lookUp);
  void readForeign(const ForeignKey &key, std::string_view section,
                   std::string_view own, const Given &entry);
  void readTaken(const ForeignKey &foreign, const Given &entry);
  [[noreturn]] void failUnknown(std::string_view section, const Node &name);

  struct Problem {
    std::string path;
    Error error;
  };
  std::vector<Problem> problems;
  std::map<std::string, Given, std::less<>> given, implied;
  static constexpr size_t kNone = -1;
  size_t current = kNone; ///< the key of `result.keys` that is being read
  size_t sections = 0;    ///< that were read
  bool becomes = false;   ///< something, since the key that is being read
  /// By path; a list, since assigning a node changes what it stands for.
  std::list<std::pair<std::string, Node>> own;
};

/// YAML on one line.
std::string printFlow(const YAML::Node &node);

/// "optimizer.lr"
std::string joinPath(std::string_view section, std::string_view key);

} // namespace fsdp

#endif // FSDP_TOOLS_FSDPOPT_CONFIG_READING_H
