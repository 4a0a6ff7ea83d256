//===- FactsTest.cpp - Merging Facts.def into the operator table ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/aten-table/Facts.h"

#include <gtest/gtest.h>

using namespace fsdp;

namespace {

TEST(Facts, JoinFlagsOfAllOverloads) {
  Facts facts{{{"add", "Promotes | Self"}}, {}, ""};
  std::string flags = "Cpu", none = "0", schema = "(Tensor self) -> Tensor";
  facts.merge("add", "Tensor", flags, schema);
  facts.merge("add", "", none, schema);
  facts.findUnusedRows();
  EXPECT_EQ(flags, "Cpu | Promotes | Self");
  EXPECT_EQ(none, "Promotes | Self");
  EXPECT_EQ(schema, "(Tensor self) -> Tensor");
  EXPECT_EQ(facts.problems, "");
}

TEST(Facts, CorrectTheSchemaOfOneOverload) {
  Facts facts{{}, {{"view.out", "Tensor(a)[] selves, Tensor? mask"}}, ""};
  const std::string was = "(Tensor mask, Tensor[] selves) -> Tensor[]";
  std::string flags = "0", schema = was, other = was;
  facts.merge("view", "", flags, other);
  facts.merge("view", "out", flags, schema);
  facts.findUnusedRows();
  EXPECT_EQ(other, was);
  EXPECT_EQ(schema, "(Tensor? mask, Tensor(a)[] selves) -> Tensor(a)[]");
  EXPECT_EQ(flags, "0");
  EXPECT_EQ(facts.problems, "");
}

TEST(Facts, RefuseRowsThatNameNoOperator) {
  Facts facts{{{"ad", "Promotes"}}, {{"view.typo", "Tensor(a) self"}}, ""};
  std::string flags = "Cpu", schema = "(Tensor self) -> Tensor";
  facts.merge("add", "Tensor", flags, schema);
  facts.merge("view", "", flags, schema);
  facts.findUnusedRows();
  EXPECT_EQ(facts.problems,
            "ad names no operator of LibTorch, or has two rows\n"
            "view.typo names no operator of LibTorch, or has two rows\n");
}

TEST(Facts, RefuseSecondRows) {
  Facts facts{{{"a", "X"}, {"b", "X"}, {"b", "Y"}}, {}, ""};
  std::string flags = "Cpu", schema = "(Tensor self) -> Tensor";
  facts.merge("a", "", flags, schema);
  facts.merge("b", "", flags, schema);
  facts.findUnusedRows();
  EXPECT_EQ(facts.problems,
            "b names no operator of LibTorch, or has two rows\n");
}

TEST(Facts, RefuseCorrectionsThatDoNotFit) {
  struct Case {
    const char *argument, *schema;
  } cases[] = {
      {"Tensor(a) self", "(Tensor self_, int n) -> Tensor"},
      {"Tensor(a) self", "(Tensor input) -> Tensor"},
      {"Tensor(a) self", "(Tensor(a) self) -> Tensor(a)"},
      {"Tensor(a) self", "(Tensor self, Tensor(a!) out) -> Tensor(a!)"},
      {"Tensor(a) self", "(Tensor self) -> int"},
      {"Tensor? self", "(Tensor? self) -> Tensor"},
      {"Tensor self", "(Tensor self) -> Tensor"},
  };
  for (const Case &each : cases) {
    Facts facts{{}, {{"f", each.argument}}, ""};
    std::string flags = "0", schema = each.schema;
    facts.merge("f", "", flags, schema);
    EXPECT_EQ(schema, each.schema);
    EXPECT_EQ(facts.problems,
              std::string("f has no argument to be corrected to '") +
                  each.argument + "': " + each.schema + "\n");
  }
}

} // namespace
