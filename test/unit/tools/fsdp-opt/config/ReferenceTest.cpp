//===- ReferenceTest.cpp - What documents say of the config's keys --------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/config/Reference.h"
#include "test/unit/tools/fsdp-opt/config/ConfigText.h"
#include "tools/fsdp-opt/config/ForeignKeys.h"
#include "tools/fsdp-opt/config/Names.h"

#include <fstream>
#include <set>
#include <sstream>

using namespace fsdp;
using namespace fsdp::test;
using testing::Contains;
using testing::HasSubstr;

namespace {

std::string readDocument() {
  std::ifstream file(FSDP_SOURCE_DIR "/docs/Config.md");
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::set<std::string> listPaths() {
  std::set<std::string> paths;
  for (const ConfigChapter &chapter : listConfigKeys())
    for (const ConfigKey &key : chapter.keys)
      EXPECT_TRUE(paths.insert(key.path).second) << key.path;
  return paths;
}

TEST(ConfigReference, EveryKeyIsDocumented) {
  const std::string text = readDocument();
  for (const std::string &path : listPaths())
    EXPECT_THAT(text, HasSubstr("| `" + path + "` |"));
  for (const ConfigChapter &chapter : listConfigKeys())
    for (const ConfigKey &key : chapter.keys)
      EXPECT_FALSE(key.type.empty() || key.text.empty()) << key.path;
}

TEST(ConfigReference, DefaultsAreThoseOfTheStructs) {
  std::map<std::string, std::string> initial;
  for (const ConfigChapter &chapter : listConfigKeys())
    for (const ConfigKey &key : chapter.keys)
      initial[key.path] = key.initial;
  EXPECT_EQ(initial.at("optimizer.lr"), "`0.001`");
  EXPECT_EQ(initial.at("fsdp_config.gradient_sync"), "`each`");
  EXPECT_EQ(initial.at("fsdp_config.reshard_after_backward"), "`true`");
  EXPECT_EQ(initial.at("data.dtype"), "`uint16`");
  EXPECT_EQ(initial.at("data.drop_last"), "`true`");
  EXPECT_EQ(initial.at("max_grad_norm"), "no clipping");
}

/// A key of another tool that is only renamed becomes one that there is.
TEST(ConfigReference, RenamedKeysHaveAnOwnOne) {
  const std::set<std::string> paths = listPaths();
  for (const ForeignKey &key : getForeignKeys()) {
    if (key.action == ForeignKey::Taken && !key.read) {
      EXPECT_THAT(paths, Contains(std::string(key.becomes))) << key.names;
    }
  }
}

/// One row says what becomes of a key, and of whose files it is.
TEST(ConfigReference, EachForeignKeyHasOneRow) {
  std::set<std::string> known;
  for (const ForeignKey &key : getForeignKeys()) {
    EXPECT_FALSE(describeTools(key.tools).empty()) << key.names;
    EXPECT_FALSE(key.text.empty() && key.becomes.empty()) << key.names;
    for (const std::string &name : listNames(key)) {
      std::string path = joinPath(key.section, name);
      if (!key.when) {
        EXPECT_TRUE(known.insert(path).second) << path;
      }
    }
  }
}

/// Keys of sections are looked up only where the section is read.
TEST(ConfigReference, EachForeignSectionIsRead) {
  const std::set<std::string> paths = listPaths();
  std::set<std::string> sections{"optimizer.groups",
                                 "fsdp_config.mixed_precision"};
  for (const ForeignKey &key : getForeignKeys())
    if (key.action == ForeignKey::Section ||
        (key.action == ForeignKey::Taken && key.names == "float8"))
      for (const std::string &name : listNames(key))
        sections.insert(joinPath(key.section, name));
  for (const ForeignKey &key : getForeignKeys()) {
    std::string section(key.section);
    EXPECT_TRUE(section.empty() || paths.contains(section) ||
                sections.contains(section))
        << section;
  }
}

/// The plan's enumerations are read and printed by its own names.
TEST(ConfigReference, EveryChoiceOfThePlanHasAName) {
  for (plan::NonFinite value : plan::EnumValuesNonFinite())
    EXPECT_EQ(getName(value), plan::EnumNameNonFinite(value));
  for (plan::TokenFormat value : plan::EnumValuesTokenFormat())
    EXPECT_EQ(getName(value).empty(), value == plan::TokenFormat::recognized);
}

TEST(ConfigReference, EachTableHasOnePlace) {
  const std::string text = readDocument();
  EXPECT_EQ(renewReference(text), text);
  const std::string mark = "<!-- keys: step -->\n";
  const size_t at = text.find(mark);
  ASSERT_NE(at, text.npos);
  std::string missing = text, unknown = text, open = text;
  missing.erase(at, mark.size());
  EXPECT_THROW(renewReference(missing), std::runtime_error);
  unknown.insert(at, "<!-- keys: stop -->\n<!-- end of keys -->\n");
  EXPECT_THROW(renewReference(unknown), std::runtime_error);
  EXPECT_THROW(renewReference(text + text), std::runtime_error);
  open.erase(open.rfind("<!-- end of keys -->"));
  EXPECT_THROW(renewReference(open), std::runtime_error);
}

} // namespace
