//===- Reading.cpp - A config while it is read ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/config/Reading.h"

#include "support/Nearest.h"
#include "tools/fsdp-opt/config/Foreign.h"
#include "tools/fsdp-opt/config/ForeignKeys.h"
#include "tools/fsdp-opt/config/Tables.h"

#include <algorithm>
#include <set>
#include <utility>

using namespace fsdp;

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

const YamlReader &Value::reader() const { return reading.read; }

void Value::fail(const std::string &message) const {
  reader().fail(ErrorId::ConfigBadValue, node, "'" + key + "': " + message);
}

void Value::failRange(const std::string &expected) const {
  fail("expected " + expected + ", found " + node.Scalar());
}

void Value::failType(std::string_view expected) const {
  reader().failType(node, key, expected);
}

//===----------------------------------------------------------------------===//
// Mistakes and notes
//===----------------------------------------------------------------------===//

void Reading::collect(const std::string &path,
                      const std::function<void()> &run) {
  try {
    run();
  } catch (const Error &error) {
    problems.push_back({path, error});
    classify(KeyOutcome::Refused, error.what());
  }
}

/// Whether `path` is `other`, or something in it.
static bool isPart(std::string_view path, std::string_view other) {
  return path.starts_with(other) &&
         (path.size() == other.size() || other.empty() ||
          path[other.size()] == '.' || path[other.size()] == '[');
}

bool Reading::hasProblem(std::string_view path) const {
  return std::ranges::any_of(problems, [&](const Problem &problem) {
    return isPart(problem.path, path) || isPart(path, problem.path);
  });
}

void Reading::throwProblems() const {
  if (problems.empty())
    return;
  const Error &first = problems.front().error;
  std::string message = first.what();
  for (size_t i = 1; i < problems.size(); ++i)
    message += "\n" + problems[i].error.format();
  throw Error(first.id(), message);
}

std::vector<std::string> Reading::listProblems() const {
  std::vector<std::string> all;
  for (const Problem &problem : problems)
    all.push_back(problem.error.format());
  return all;
}

void Reading::classify(KeyOutcome outcome, const std::string &text) {
  if (current == kNone)
    return;
  result.keys[current].outcome = outcome;
  result.keys[current].text = text;
}

void Reading::refuse(const std::string &path, const std::string &message,
                     ErrorId id) const {
  const Given *key = find(path);
  if (auto other = implied.find(path); !key && other != implied.end())
    key = &other->second;
  read.fail(id, key ? key->value : root, message);
}

std::string Reading::quote(const std::string &path) const {
  const Given *key = find(path);
  if (auto other = implied.find(path); !key && other != implied.end())
    key = &other->second;
  return "'" + (key ? key->name.Scalar() : path.substr(path.rfind('.') + 1)) +
         "'";
}

void Reading::noteWithoutEffect(const std::string &path,
                                const std::string &why) {
  const Given *key = find(path);
  if (key && !key->value.IsNull())
    addNote(key->value, quote(path) + " has no effect with " + why);
}

//===----------------------------------------------------------------------===//
// Keys
//===----------------------------------------------------------------------===//

const Given *Reading::find(const std::string &path) const {
  auto it = given.find(path);
  return it == given.end() ? nullptr : &it->second;
}

void Reading::take(const std::string &path, const Given &key) {
  auto [it, isNew] = given.try_emplace(path, key);
  if (!isNew)
    read.fail(ErrorId::ConfigBadValue, key.name,
              "'" + key.name.Scalar() + "' and '" + it->second.name.Scalar() +
                  "' say the same; keep one");
  result.config.places.insert_or_assign(path, read.describePlace(key.name));
}

void Reading::imply(const std::string &path, const Value &by) {
  if (implied.try_emplace(path, Given{YAML::Node(by.key), by.node, true})
          .second)
    result.config.places.try_emplace(path, read.describePlace(by.node));
}

std::string fsdp::joinPath(std::string_view section, std::string_view key) {
  return std::string(section) + (section.empty() ? "" : ".") + std::string(key);
}

static std::string describeSection(std::string_view section) {
  return section.empty() ? "" : " in " + std::string(section);
}

void Reading::failUnknown(std::string_view section, const Node &name) {
  struct Known {
    std::string section, key;
    bool isOwn = true;
  };
  static const std::vector<Known> all = [] {
    std::vector<ConfigKey> keys;
    getTopLevel().list(keys);
    std::vector<Known> all;
    for (const ConfigKey &key : keys) {
      size_t dot = key.path.rfind('.');
      all.push_back(dot == key.path.npos ? Known{"", key.path}
                                         : Known{key.path.substr(0, dot),
                                                 key.path.substr(dot + 1)});
    }
    for (const ForeignKey &key : getForeignKeys())
      if (key.action == ForeignKey::Taken || !key.section.empty())
        for (const std::string &name : listNames(key))
          all.push_back({std::string(key.section), name, false});
    return all;
  }();
  std::vector<std::string_view> here, elsewhere;
  for (const Known &known : all)
    (known.section == section ? here : elsewhere).push_back(known.key);
  std::string key = name.Scalar();
  std::string message = "unknown key '" + key + "'" + describeSection(section);
  // The right word in the wrong section is told apart from a misspelt one.
  for (const Known &known : all)
    if (known.key == key)
      read.fail(ErrorId::ConfigUnknownKey, name,
                message + "; it belongs " +
                    (known.section.empty() ? "to the top level"
                                           : "into " + known.section));
  std::string_view nearest = findNearest(key, here);
  if (nearest.empty())
    nearest = findNearest(key, elsewhere);
  if (!nearest.empty())
    message += "; did you mean '" + std::string(nearest) + "'?";
  else {
    message += "; expected one of ";
    // Of other tools' keys there are too many, where there are others.
    bool hasOwn = std::ranges::any_of(all, [&](const Known &known) {
      return known.section == section && known.isOwn;
    });
    const char *comma = "";
    for (const Known &known : all)
      if (known.section == section && known.isOwn == hasOwn)
        message += std::exchange(comma, ", ") + known.key;
  }
  read.fail(ErrorId::ConfigUnknownKey, name, message);
}

/// Of another tool: its value is that of a key of this project.
void Reading::readTaken(const ForeignKey &foreign, const Given &entry) {
  // Files of other tools are full of keys without a value.
  if (entry.value.IsNull() || (foreign.sayNothingIfOff && isOff(entry.value)))
    return classify(KeyOutcome::Nothing, "asks for nothing");
  std::string path(foreign.becomes);
  Value value{*this, path, entry.name.Scalar(), entry.value};
  if (path.empty())
    return foreign.read(value);
  collect(path, [&] {
    if (!foreign.reports)
      addMinor(entry.name, "'" + value.key + "' is taken as " + path);
    take(path, entry);
    becomes = false;
    if (foreign.read)
      foreign.read(value);
    else
      getTopLevel().readAt(path, value, result.config);
    if (!becomes && !foreign.read)
      become(path, entry.value);
  });
}

void Reading::readForeign(const ForeignKey &key, std::string_view section,
                          std::string_view own, const Given &entry) {
  switch (key.action) {
  case ForeignKey::Taken: {
    std::string text(key.text.empty() ? key.becomes : key.text);
    std::erase(text, '`');
    // Links are of documents.
    if (size_t link = text.find(", ["); link != text.npos)
      text.resize(link);
    classify(KeyOutcome::Taken, text);
    return readTaken(key, entry);
  }
  case ForeignKey::Section: {
    classify(KeyOutcome::Taken, std::string(key.text));
    if (entry.value.IsNull() || isOff(entry.value))
      return;
    std::string path = joinPath(section, own);
    return readSection(path, path, entry.value,
                       [](std::string_view) { return ReadValue(); });
  }
  default:
    return reportForeign(*this, key, entry);
  }
}

void Reading::readKey(
    std::string_view section, std::string_view own, const std::string &path,
    const Given &entry,
    const std::function<ReadValue(std::string_view)> &lookUp) {
  const std::string &written = entry.name.Scalar();
  Given theirs{entry.name, entry.value, true};
  if (const ForeignKey *key = findForeignKeyOf(entry.value, section, own))
    return readForeign(*key, section, own, theirs);
  if (ReadValue readOwn = lookUp(own)) {
    take(path, entry);
    size_t before = sections;
    std::erase_if(this->own, [&](const auto &entry) {
      return entry.first == path; // by another tool's key, which it goes before
    });
    becomes = false;
    readOwn({*this, path, written, entry.value});
    bool isEmpty = entry.value.IsMap() && !entry.value.size();
    if (!becomes && (sections == before || isEmpty))
      become(path, entry.value);
  } else if (const ForeignKey *key = findForeignKey(section, own, written))
    readForeign(*key, section, own, theirs);
  else
    failUnknown(section, entry.name);
}

void Reading::readSection(
    std::string_view section, const std::string &path, const Node &map,
    const std::function<ReadValue(std::string_view key)> &lookUp) {
  if (map.IsNull())
    return;
  if (!map.IsMap())
    read.failType(map, section.empty() ? read.getFile() : section,
                  "a map of keys and values");
  ++sections;
  std::string_view prefix = getForeignPrefix(section);
  std::set<std::string, std::less<>> seen;
  for (const auto &each : map) {
    Given entry{each.first, each.second};
    if (!entry.name.IsScalar())
      read.failType(entry.name, section.empty() ? "key" : section, "a key");
    std::string_view own = entry.name.Scalar();
    if (!prefix.empty() && own.starts_with(prefix))
      own.remove_prefix(prefix.size());
    std::string ownPath = joinPath(path, own);
    size_t outer = std::exchange(current, result.keys.size());
    result.keys.push_back({read.describePlace(entry.name),
                           joinPath(path, entry.name.Scalar()),
                           KeyOutcome::Own,
                           {}});
    collect(ownPath, [&] {
      if (!seen.emplace(own).second)
        read.fail(ErrorId::ConfigBadValue, entry.name,
                  "'" + entry.name.Scalar() + "' stands twice" +
                      describeSection(section) + "; keep one");
      readKey(section, own, ownPath, entry, lookUp);
    });
    current = outer;
  }
}
