//===- Reference.cpp - What documents say of the config's keys ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/config/Reference.h"

#include "tools/fsdp-opt/config/Foreign.h"
#include "tools/fsdp-opt/config/Tables.h"

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

std::vector<ForeignConfigKey> fsdp::listForeignKeys() {
  std::vector<ForeignConfigKey> all;
  for (const Rename &rename : getRenames())
    all.push_back({joinPath(rename.section, rename.name),
                   rename.text.empty() ? "`" + std::string(rename.becomes) + "`"
                                       : std::string(rename.text)});
  return all;
}

/// The tables by the names of their places.
static std::map<std::string, std::string, std::less<>> makeTables() {
  std::map<std::string, std::string, std::less<>> tables;
  for (const ConfigChapter &chapter : listConfigKeys()) {
    std::string &text = tables[std::string(chapter.name)];
    text = "| key | value | default | meaning |\n|---|---|---|---|\n";
    for (const ConfigKey &key : chapter.keys)
      text += "| `" + key.path + "` | " + key.type + " | " + key.initial +
              " | " + key.text + " |\n";
  }
  std::string &text = tables["other tools"];
  text = "| key | becomes |\n|---|---|\n";
  for (const ForeignConfigKey &key : listForeignKeys())
    text += "| `" + key.path + "` | " + key.becomes + " |\n";
  return tables;
}

std::string fsdp::renewReference(const std::string &document) {
  static constexpr std::string_view begin = "<!-- keys: ",
                                    end = "<!-- end of keys -->";
  auto tables = makeTables();
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
