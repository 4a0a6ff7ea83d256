//===- TomlTest.cpp - TOML as YAML ----------------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "support/yaml/Toml.h"
#include "test/unit/tools/fsdp-opt/config/ConfigText.h"

#include <yaml-cpp/yaml.h>

using namespace fsdp;
using testing::HasSubstr;

namespace {

std::string refusal(const std::string &text) {
  try {
    convertToml(text, "run.toml");
  } catch (const Error &error) {
    EXPECT_EQ(error.id(), ErrorId::ConfigNotReadable);
    return error.what();
  }
  return "";
}

TEST(Toml, KeepsValuesAndTheirPlaces) {
  const std::string text = "# a comment\n"
                           "[model]\n"
                           "name = \"a \\\"b\\\" \\u00e9\\n\"\n"
                           "sizes = [1, 0x10, 1_000]\n"
                           "\n"
                           "[training.inner]\n"
                           "lr = 3e-4\n"
                           "on = true\n"
                           "off.deep = false\n"
                           "day = 2026-01-02\n"
                           "most = inf\n"
                           "table = {a = 1, \"b c\" = 'x'}\n";
  YAML::Node root = YAML::Load(convertToml(text, "run.toml"));
  EXPECT_EQ(root["model"]["name"].as<std::string>(), "a \"b\" é\n");
  EXPECT_EQ(root["model"]["sizes"][1].as<int>(), 16);
  YAML::Node inner = root["training"]["inner"];
  EXPECT_EQ(inner["lr"].as<double>(), 3e-4);
  EXPECT_TRUE(inner["on"].as<bool>());
  EXPECT_FALSE(inner["off"]["deep"].as<bool>());
  EXPECT_EQ(inner["day"].as<std::string>(), "2026-01-02");
  EXPECT_GT(inner["most"].as<double>(), 1e308);
  EXPECT_EQ(inner["table"]["b c"].as<std::string>(), "x");
  for (const auto &entry : inner)
    if (entry.first.Scalar() == "day") {
      EXPECT_EQ(entry.first.Mark().line, 9);
      EXPECT_EQ(entry.first.Mark().column, 0);
    }
  // A text stays one.
  EXPECT_EQ(YAML::Load(convertToml("a = \"1\"", "x"))["a"].Tag(), "!");
}

TEST(Toml, RefusesWhatHasNoPlace) {
  EXPECT_THAT(refusal("a = 1\nb = = 2\n"), HasSubstr("run.toml:2:"));
  EXPECT_THAT(refusal("a = 1\na = 2\n"), HasSubstr("no TOML"));
  EXPECT_THAT(refusal("[a.x]\nk = 1\n[b]\nk = 1\n[a.y]\nk = 1\n"),
              HasSubstr("expected all keys of a table in one place"));
  EXPECT_EQ(refusal(""), "");
}

TEST(Toml, MistakesOfAConfigSayWhere) {
  try {
    parseConfig("[optimizer]\nname = \"AdamW\"\nlr = \"fast\"\n", "run.toml",
                2);
    ADD_FAILURE() << "it was taken";
  } catch (const Error &error) {
    EXPECT_THAT(error.what(), HasSubstr("run.toml:3:"));
  }
}

} // namespace
