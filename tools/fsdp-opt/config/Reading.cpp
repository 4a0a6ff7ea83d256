//===- Reading.cpp - A config while it is read ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/config/Reading.h"

#include "support/Nearest.h"
#include "tools/fsdp-opt/config/Foreign.h"
#include "tools/fsdp-opt/config/ForeignKeys.h"
#include "tools/fsdp-opt/config/Tables.h"

#include <algorithm>
#include <set>

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
  }
}

/// Whether `path` is `other`, or something in it.
static bool isIn(std::string_view path, std::string_view other) {
  return path.starts_with(other) &&
         (path.size() == other.size() || other.empty() ||
          path[other.size()] == '.' || path[other.size()] == '[');
}

bool Reading::hasProblem(std::string_view path) const {
  return std::ranges::any_of(problems, [&](const Problem &problem) {
    return isIn(problem.path, path) || isIn(path, problem.path);
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
    for (const Rename &rename : getRenames())
      all.push_back({std::string(rename.section), std::string(rename.name)});
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
    for (size_t i = 0; i < here.size(); ++i)
      message += (i ? ", " : "") + std::string(here[i]);
  }
  read.fail(ErrorId::ConfigUnknownKey, name, message);
}

/// Of another tool: its value is that of a key of this project.
void Reading::readRenamed(const Rename &rename, const Given &entry) {
  // Files of other tools are full of keys without a value.
  if (entry.value.IsNull() || (rename.sayNothingIfOff && isOff(entry.value)))
    return;
  std::string path(rename.becomes);
  Value value{*this, path, entry.name.Scalar(), entry.value};
  if (path.empty())
    return rename.read(value);
  collect(path, [&] {
    if (!rename.reports)
      addMinor(entry.name, "'" + value.key + "' is taken as " + path);
    take(path, entry);
    if (rename.read)
      rename.read(value);
    else
      getTopLevel().readAt(path, value, result.config);
  });
}

void Reading::readKey(
    std::string_view section, std::string_view own, const std::string &path,
    const Given &entry,
    const std::function<ReadValue(std::string_view)> &lookUp) {
  const std::string &written = entry.name.Scalar();
  if (ReadValue readOwn = lookUp(own)) {
    take(path, entry);
    readOwn({*this, path, written, entry.value});
  } else if (const Rename *rename = findRename(section, own, written))
    readRenamed(*rename, {entry.name, entry.value, true});
  else if (const ForeignKey *foreign = findForeignKey(section, own))
    reportForeign(*this, *foreign, entry);
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
  std::set<std::string, std::less<>> seen;
  for (const auto &each : map) {
    Given entry{each.first, each.second};
    if (!entry.name.IsScalar())
      read.failType(entry.name, section.empty() ? "key" : section, "a key");
    // Accelerate's fsdp_config has a prefix before each key.
    std::string_view own = entry.name.Scalar();
    if (section == "fsdp_config" && own.starts_with("fsdp_"))
      own.remove_prefix(std::string_view("fsdp_").size());
    std::string ownPath = joinPath(path, own);
    collect(ownPath, [&] {
      if (!seen.emplace(own).second)
        read.fail(ErrorId::ConfigBadValue, entry.name,
                  "'" + entry.name.Scalar() + "' stands twice" +
                      describeSection(section) + "; keep one");
      readKey(section, own, ownPath, entry, lookUp);
    });
  }
}
