//===- ForeignDeepSpeedFile.cpp - DeepSpeed's file beside another tool's --===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Axolotl, transformers and accelerate name a file of DeepSpeed's. Its nearest
// config stands for it, where the file that names it says nothing: whatever it
// leaves to the Trainer's arguments ("auto"), that one says.
//
//===----------------------------------------------------------------------===//

#include "support/ReadOnlyFile.h"
#include "tools/fsdp-opt/config/Foreign.h"
#include "tools/fsdp-opt/config/ForeignDeepSpeed.h"
#include "tools/fsdp-opt/config/ForeignKeys.h"

#include <algorithm>
#include <filesystem>

using namespace fsdp;
namespace fs = std::filesystem;

static constexpr uint64_t kMostBytes = 16 << 20;

/// The values that are left to others, and maps of nothing else.
static void dropAuto(YAML::Node map) {
  std::vector<std::string> left;
  for (auto entry : map) {
    bool hadMore = entry.second.IsMap() && entry.second.size();
    if (hadMore)
      dropAuto(entry.second);
    if (isAuto(entry.second) || (hadMore && !entry.second.size()))
      left.push_back(entry.first.Scalar());
  }
  for (const std::string &key : left)
    map.remove(key);
}

static YAML::Node readTree(const std::string &path) {
  try {
    return YAML::Load(readWholeFile(path, "DeepSpeed's config", kMostBytes));
  } catch (const YAML::Exception &exception) {
    refuseYaml(path, exception);
  }
}

namespace {
class Inclusion {
public:
  Inclusion(Reading &reading, std::string name)
      : reading(reading), name(std::move(name)) {}

  /// What `from` has and `own`, the file's own config, does not, becomes a key
  /// of `to`, which is the same section as the file has it.
  void add(YAML::Node to, const YAML::Node &own, const YAML::Node &from,
           const std::string &section) {
    for (const auto &entry : from) {
      std::string key = entry.first.Scalar(), path = joinPath(section, key);
      YAML::Node said = own.IsMap() ? own[key] : YAML::Node();
      YAML::Node there = to[key];
      if (said.IsDefined() && !(said.IsMap() && entry.second.IsMap())) {
        if (printFlow(said) != printFlow(entry.second))
          reading.result.notes.push_back(
              name + ": '" + path + ": " + printFlow(entry.second) +
              "' is not what '" + reading.read.getFile() + "' says, " +
              printFlow(said) + ", which counts");
      } else if (!there.IsDefined() || there.IsNull()) {
        to.remove(key);
        if (said.IsDefined()) {
          YAML::Node inner(YAML::NodeType::Map);
          add(inner, said, entry.second, path);
          if (inner.size())
            to.force_insert(entry.first, inner);
        } else {
          to.force_insert(entry.first, entry.second);
        }
      } else if (there.IsMap() && entry.second.IsMap()) {
        add(there, said.IsDefined() ? said : YAML::Node(), entry.second, path);
      } else {
        // A word, such as an optimizer's.
        YAML::Node left = entry.second;
        if (said.IsMap() && entry.second.IsMap()) {
          left.reset(YAML::Node(YAML::NodeType::Map));
          add(left, said, entry.second, path);
          if (!left.size())
            continue;
        }
        reading.result.warnings.push_back(
            name + ": '" + path + ": " + printFlow(left) +
            "' has no place beside '" + key + ": " + printFlow(there) +
            "' of '" + reading.read.getFile() + "': write it there");
      }
    }
  }

private:
  Reading &reading;
  const std::string name;
};
} // namespace

/// A config in keys of this project, all of whose places are in the line of
/// `at`: messages about what it brings show who names it.
static YAML::Node placeAt(const YAML::Node &at, const std::string &own) {
  YAML::Mark mark = at.Mark();
  std::string lead(static_cast<size_t>(std::max(mark.line, 0)), '\n');
  lead.append(static_cast<size_t>(std::max(mark.column, 0)), ' ');
  YAML::Node tree = YAML::Load(own);
  return tree.IsMap() ? YAML::Load(lead + printFlow(tree))
                      : YAML::Node(YAML::NodeType::Map);
}

/// Where the file that is named is: beside the one that names it, or from here.
static std::string findBeside(const std::string &file,
                              const std::string &path) {
  std::error_code code;
  fs::path beside = fs::path(file).parent_path() / path;
  return fs::exists(beside, code) || !fs::exists(path, code) ? beside.string()
                                                             : path;
}

void deepspeed::include(
    Reading &reading, const YAML::Node &at,
    const std::function<ReadConfig(const std::string &, YAML::Node)> &load) {
  std::string name;
  YAML::Node theirs;
  if (at.IsMap()) {
    name = reading.read.getFile();
    theirs = YAML::Clone(at);
  } else {
    name = findBeside(reading.read.getFile(), at.Scalar());
    theirs = readTree(name);
  }
  if (!theirs.IsMap())
    reading.read.fail(ErrorId::ConfigNotReadable, at,
                      "'" + name + "' is no map of DeepSpeed's keys");
  dropAuto(theirs);
  ReadConfig read = load(name, theirs);
  reading.includedProblems = read.problems;
  auto append = [](auto &to, const auto &more) {
    to.insert(to.end(), more.begin(), more.end());
  };
  append(reading.result.warnings, read.loaded.warnings);
  append(reading.result.notes, read.loaded.notes);
  append(reading.result.minor, read.loaded.minor);
  YAML::Node alone = YAML::Clone(reading.root);
  alone.remove("deepspeed");
  if (alone["deepspeed_config"].IsMap())
    alone["deepspeed_config"].remove("deepspeed_config_file");
  YAML::Node own = YAML::Load(load(reading.read.getFile(), alone).loaded.own);
  Inclusion(reading, name)
      .add(reading.root, own, placeAt(at, read.loaded.own), "");
}

/// What is wrong in that file, at the key that names it.
void deepspeed::readIncluded(const Value &value) {
  if (value.reading.includedProblems.empty())
    return;
  std::string text = "'" + value.key + "' names a file that is not taken:";
  for (const std::string &each : value.reading.includedProblems)
    text += "\n  " + each;
  value.reader().fail(ErrorId::ConfigNotSupported, value.node, text);
}
