//===- Listing.cpp - What becomes of a file's keys, for people ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/config/Listing.h"

#include "support/Table.h"

#include <algorithm>

using namespace fsdp;

namespace {
struct Group {
  KeyOutcome outcome;
  std::string_view count; ///< "17 passed over"
  std::string_view title;
};
/// What one has to act on first. Mistakes have texts of their own.
constexpr Group kGroups[] = {
    {KeyOutcome::Refused, "refused", ""},
    {KeyOutcome::Warned, "not taken",
     "not taken from here; training differs unless one acts"},
    {KeyOutcome::Taken, "taken", "taken as"},
    {KeyOutcome::Own, "of this project", ""},
    {KeyOutcome::PassedOver, "passed over", "passed over; nothing changes"},
    {KeyOutcome::Nothing, "without a request", ""}};
} // namespace

static size_t count(const LoadedConfig &loaded, KeyOutcome outcome) {
  return std::ranges::count(loaded.keys, outcome, &KeyReport::outcome);
}

static std::string indent(const std::string &text) {
  std::string lines = "  ";
  for (char letter : text) {
    lines += letter;
    if (letter == '\n')
      lines += "  ";
  }
  lines.erase(lines.find_last_not_of(' ') + 1);
  return lines;
}

/// Texts of a file that this one names keep their own.
static std::string withoutName(const std::string &text,
                               const std::string &name) {
  return text.starts_with(name + ":") ? text.substr(name.size() + 1) : text;
}

std::string fsdp::listKeys(const ReadConfig &read, const std::string &name) {
  const LoadedConfig &loaded = read.loaded;
  std::string text = name + ": " + std::to_string(loaded.keys.size()) +
                     (loaded.keys.size() == 1 ? " key" : " keys");
  for (const Group &group : kGroups)
    if (size_t number = count(loaded, group.outcome))
      text += (text.ends_with("s") || text.ends_with("key") ? ": " : ", ") +
              std::to_string(number) + " " + std::string(group.count);
  text += "\n";
  if (!read.problems.empty()) {
    text += "\nrefused\n";
    for (const std::string &problem : read.problems)
      text += indent(problem) + "\n";
  }
  for (const Group &group : kGroups) {
    if (group.title.empty() || count(loaded, group.outcome) == 0)
      continue;
    text += "\n" + std::string(group.title) + "\n";
    TextTable table;
    for (const KeyReport &key : loaded.keys)
      if (key.outcome == group.outcome)
        table.add({withoutName(key.place, name), key.key, key.text});
    text += table.print();
  }
  if (!loaded.notes.empty()) {
    text += "\nnotes\n";
    for (const std::string &note : loaded.notes)
      text += "  " + withoutName(note, name) + "\n";
  }
  text += "\nthe same in keys of this project";
  text += read.problems.empty() ? "\n" : ", as far as it is taken\n";
  std::string own = loaded.own;
  if (!own.empty())
    own.pop_back();
  return text + (own.empty() ? "  # nothing\n" : indent(own) + "\n");
}
