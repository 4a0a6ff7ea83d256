//===- ForeignKeys.h - Keys of other tools' config files --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// People bring the config files that they have. One table has every key of
// theirs that is known: what it becomes here, why it is passed over, or what to
// write instead. Keys that mean nothing here, or only make the same faster or
// smaller, are passed over; those that would change training, and are not taken
// from here, have a warning; those that ask for something that is not there are
// refused. A key whose value asks for nothing says nothing.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TOOLS_FSDPOPT_CONFIG_FOREIGNKEYS_H
#define FSDP_TOOLS_FSDPOPT_CONFIG_FOREIGNKEYS_H

#include "tools/fsdp-opt/config/Reading.h"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fsdp {

/// Tools whose files have a key; a set of bits.
enum Tool : unsigned {
  Axolotl = 1,
  Accelerate = 2,
  Transformers = 4, ///< TrainingArguments
  Torchtitan = 8,
  LlamaFactory = 16,
  Trl = 32,
  DeepSpeed = 64,
  /// Whose files hold TrainingArguments.
  OfTrainer = Transformers | Axolotl | LlamaFactory | Trl
};

struct ForeignKey {
  enum Action {
    Taken,   ///< its value is that of a key of this project
    Section, ///< a map, whose keys have rows of their own
    Ignored, ///< with one note among many
    Noted,   ///< with a note of its own
    Changes, ///< with a warning: training differs unless one acts
    Moved,   ///< refused: the same thing has another name here
    Refused, ///< unless the value is empty, false, 0, no, none, constant
    RefusedAboveOne, ///< as Refused, but 1 asks for nothing either
    RefusedIfEnabled ///< a map that has `enabled: true`
  };
  unsigned tools;
  Action action;
  std::string_view section; ///< "" for the top level
  std::string_view names;   ///< of which the same is said, with spaces between
  /// Completes "'key' …"; of a key that is taken, what documents say in place
  /// of `becomes`.
  std::string_view text = {};

  // Of a key that is taken.
  std::string_view becomes = {}; ///< "optimizer.lr"; empty: `read` says it
  void (*read)(const Value &) = nullptr; ///< where it takes more than a name
  bool reports = false;                  ///< `read` says what it is taken as
  bool sayNothingIfOff = false;

  // Of a section.
  std::string_view prefix = {}; ///< that its keys may have in files

  /// The row is of such values alone, and goes before a key of this project.
  bool (*when)(const YAML::Node &) = nullptr;

  constexpr ForeignKey quietIfOff() const {
    ForeignKey key = *this;
    key.sayNothingIfOff = true;
    return key;
  }
  constexpr ForeignKey reporting() const {
    ForeignKey key = *this;
    key.reports = true;
    return key;
  }
  constexpr ForeignKey only(bool (*which)(const YAML::Node &)) const {
    ForeignKey key = *this;
    key.when = which;
    return key;
  }
};

namespace foreign {
// How rows are written.

constexpr ForeignKey taken(unsigned tools, std::string_view section,
                           std::string_view names, std::string_view becomes,
                           void (*read)(const Value &) = nullptr,
                           std::string_view text = {}) {
  return {.tools = tools,
          .action = ForeignKey::Taken,
          .section = section,
          .names = names,
          .text = text,
          .becomes = becomes,
          .read = read};
}
constexpr ForeignKey section(unsigned tools, std::string_view section,
                             std::string_view name,
                             std::string_view prefix = {}) {
  return {.tools = tools,
          .action = ForeignKey::Section,
          .section = section,
          .names = name,
          .text = "its keys, one by one",
          .prefix = prefix};
}
constexpr ForeignKey told(unsigned tools, ForeignKey::Action action,
                          std::string_view section, std::string_view text,
                          std::string_view names) {
  return {.tools = tools,
          .action = action,
          .section = section,
          .names = names,
          .text = text};
}

// The rows, by what they are about.
std::span<const ForeignKey> getStepKeys();
std::span<const ForeignKey> getShardingKeys();
std::span<const ForeignKey> getAdapterKeys();
std::span<const ForeignKey> getQuantizeKeys();
std::span<const ForeignKey> getModelKeys();
std::span<const ForeignKey> getDataKeys();
std::span<const ForeignKey> getRunKeys();
std::span<const ForeignKey> getTorchtitanKeys();
std::span<const ForeignKey> getDeepSpeedKeys();
} // namespace foreign

/// The table.
std::span<const ForeignKey> getForeignKeys();
/// "base_model", "model_type", …
std::vector<std::string> listNames(const ForeignKey &key);
/// "Axolotl, TRL"
std::string describeTools(unsigned tools);

/// The row of a key, under either of its names; null if there is none.
/// `value`: whether a row that is of some values alone goes before all others.
const ForeignKey *findForeignKey(std::string_view section, std::string_view own,
                                 std::string_view written);
const ForeignKey *findForeignKeyOf(const YAML::Node &value,
                                   std::string_view section,
                                   std::string_view own);
/// "parallelism_config_", which keys of that section may have in front.
std::string_view getForeignPrefix(std::string_view section);

/// What is to be said of a key that is not taken, with its value.
void reportForeign(Reading &reading, const ForeignKey &key, const Given &entry);

/// Whether the value of another tool's key asks for nothing.
bool isOff(const YAML::Node &value);
/// Whether it is a map with `enabled: true`.
bool isEnabled(const YAML::Node &value);
/// DeepSpeed's word for what the Trainer's arguments say.
bool isAuto(const YAML::Node &value);

} // namespace fsdp

#endif // FSDP_TOOLS_FSDPOPT_CONFIG_FOREIGNKEYS_H
