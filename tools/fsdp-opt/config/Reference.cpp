//===- Reference.cpp - What documents say of the config's keys ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/config/Reference.h"

#include "ir/features/Relations.h"
#include "tools/fsdp-opt/config/ForeignKeys.h"
#include "tools/fsdp-opt/config/Tables.h"

#include <algorithm>
#include <map>
#include <sstream>
#include <stdexcept>

using namespace fsdp;

std::vector<ConfigChapter> fsdp::listConfigKeys() {
  std::vector<ConfigChapter> all;
  for (const Chapter &chapter : getChapters())
    chapter.table.list(all.emplace_back(ConfigChapter{chapter.name, {}}).keys);
  return all;
}

namespace {
/// By the names of their places.
using Texts = std::map<std::string, std::string, std::less<>>;
} // namespace

static Texts makeTables() {
  Texts tables;
  for (const ConfigChapter &chapter : listConfigKeys()) {
    std::string &text = tables[std::string(chapter.name)];
    text = "| key | value | default | meaning |\n|---|---|---|---|\n";
    for (const ConfigKey &key : chapter.keys)
      text += "| `" + key.path + "` | " + key.type + " | " + key.initial +
              " | " + key.text + " |\n";
  }
  return tables;
}

static std::string renew(const std::string &document, Texts tables) {
  static constexpr std::string_view begin = "<!-- keys: ",
                                    end = "<!-- end of keys -->";
  std::istringstream lines(document);
  std::string text;
  for (std::string line; std::getline(lines, line);) {
    text += line + "\n";
    if (!line.starts_with(begin))
      continue;
    std::string name =
        line.substr(begin.size(), line.find(" -->") - begin.size());
    auto table = tables.extract(name);
    if (!table)
      throw std::runtime_error("no keys, or keys that stand above already: '" +
                               name + "'");
    text += table.mapped();
    while (line != end)
      if (!std::getline(lines, line))
        throw std::runtime_error("expected '" + std::string(end) +
                                 "' behind '" + name + "'");
    text += line + "\n";
  }
  if (!tables.empty())
    throw std::runtime_error("expected a line '" + std::string(begin) +
                             tables.begin()->first + " -->'");
  return text;
}

std::string fsdp::renewReference(const std::string &document) {
  return renew(document, makeTables());
}

//===----------------------------------------------------------------------===//
// Other tools
//===----------------------------------------------------------------------===//

namespace {
struct KeyTable {
  std::string_view name, head;
  std::vector<ForeignKey::Action> actions;
};
} // namespace

static std::string describe(const ForeignKey &key) {
  std::string text(key.text);
  if (key.action == ForeignKey::Taken)
    return text.empty() ? "`" + std::string(key.becomes) + "`" : text;
  if (key.action == ForeignKey::RefusedAboveOne)
    return "above 1: " + text;
  if (key.action == ForeignKey::RefusedIfEnabled)
    return "where it is enabled: " + text;
  // A sentence of its own.
  return key.action == ForeignKey::Moved && text.starts_with("is ")
             ? text.substr(3)
             : text;
}

std::string fsdp::renewForeign(const std::string &document) {
  static const KeyTable all[] = {
      {"taken", "becomes", {ForeignKey::Taken}},
      {"changing", "what to do", {ForeignKey::Changes}},
      {"passed over", "why", {ForeignKey::Ignored, ForeignKey::Noted}},
      {"refused",
       "why, and what to write",
       {ForeignKey::Moved, ForeignKey::Refused, ForeignKey::RefusedAboveOne,
        ForeignKey::RefusedIfEnabled}}};
  Texts tables;
  for (const KeyTable &table : all) {
    std::string &text = tables[std::string(table.name)];
    text = "| keys | of | " + std::string(table.head) + " |\n|---|---|---|\n";
    for (const ForeignKey &key : getForeignKeys()) {
      if (std::ranges::find(table.actions, key.action) == table.actions.end())
        continue;
      std::string names;
      for (const std::string &name : listNames(key))
        names +=
            (names.empty() ? "`" : ", `") + joinPath(key.section, name) + "`";
      text += "| " + names + " | " + describeTools(key.tools) + " | " +
              describe(key) + " |\n";
    }
  }
  return renew(document, std::move(tables));
}

//===----------------------------------------------------------------------===//
// What does not go together
//===----------------------------------------------------------------------===//

/// "device: cuda", whichever devices lack it; else as messages say it.
static std::string nameFeature(Feature feature) {
  std::string devices;
  bool isOfDevices = false;
  for (const Device &device : getDevices())
    if (std::optional<Asked> asked = askDevice(device, feature)) {
      isOfDevices = true;
      if (asked->is)
        devices += (devices.empty() ? "" : " or ") + asked->words;
    }
  return isOfDevices ? devices : getWords(feature, {});
}

/// The same as code, in which quotes are not meant.
static std::string markFeature(Feature feature) {
  std::string name = nameFeature(feature);
  std::erase(name, '\'');
  return "`" + name + "`";
}

static std::string makeReasons() {
  std::string text = "| | what | error | why not, and what to do |\n"
                     "|---|---|---|---|\n";
  size_t number = 0;
  for (const Relation &relation : getRelations()) {
    text += "| " + std::to_string(++number) + " | ";
    for (size_t i = 0; i < relation.features.size(); ++i) {
      bool isNeeded = relation.kind == Relation::Kind::Requires &&
                      i + 1 == relation.features.size();
      text += (i == 0     ? ""
               : isNeeded ? " without "
                          : ", ") +
              markFeature(relation.features[i]);
    }
    text += " | " + std::string(getErrorInfo(relation.id).id) + " | " +
            relation.describe(nameFeature) + " |\n";
  }
  return text;
}

/// Features that so many relations are about have a column.
static constexpr size_t kOften = 3;

/// Numbers of reasons, a row a feature; with a star if it takes more than two.
/// What has no number has no row.
static std::string makeMatrix() {
  std::vector<std::string> names;
  std::map<std::string, size_t> counts;
  std::map<std::pair<std::string, std::string>, std::string> cells;
  size_t number = 0;
  for (const Relation &relation : getRelations()) {
    std::string cell = std::to_string(++number);
    std::vector<Feature> apart = relation.features;
    if (relation.kind == Relation::Kind::Requires)
      apart.pop_back();
    bool isPair = relation.features.size() == 2;
    for (Feature one : apart) {
      std::string name = markFeature(one);
      if (counts[name]++ == 0)
        names.push_back(name);
      for (Feature other : apart)
        if (one != other) {
          std::string &text = cells[{name, markFeature(other)}];
          text += (text.empty() ? "" : ", ") + cell + (isPair ? "" : "*");
        }
    }
  }
  std::string text = "| |", line = "|---|";
  for (const std::string &column : names)
    if (counts[column] >= kOften) {
      text += " " + column + " |";
      line += "---|";
    }
  text += "\n" + line + "\n";
  for (const std::string &row : names) {
    bool isEmpty = true;
    std::string fields;
    for (const std::string &column : names)
      if (counts[column] >= kOften) {
        const std::string &cell = cells[{row, column}];
        isEmpty &= cell.empty();
        fields += " " + cell + " |";
      }
    if (!isEmpty)
      text += "| " + row + " |" + fields + "\n";
  }
  return text;
}

std::string fsdp::renewCombinations(const std::string &document) {
  return renew(document,
               {{"matrix", makeMatrix()}, {"reasons", makeReasons()}});
}
