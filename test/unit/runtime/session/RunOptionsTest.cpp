//===- RunOptionsTest.cpp - Every option of a run -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/train/RunOptions.h"
#include "runtime/session/RunAgreement.h"

#include <gmock/gmock.h>

#include <set>

using namespace fsdp;

namespace {

/// A value that is not the one at first.
struct Changer {
  void operator()(bool *value) const { *value = !*value; }
  template <typename T>
  void operator()(T *value) const {
    *value = T(7);
  }
  void operator()(std::chrono::milliseconds *value) const {
    *value += std::chrono::milliseconds(7);
  }
  void operator()(std::string *value) const { *value += "x"; }
  void operator()(std::vector<std::string> *value) const {
    value->push_back("x");
  }
  void operator()(const Choice &choice) const {
    for (std::string_view name : choice.names)
      if (name != choice.get(choice.value))
        return choice.set(choice.value, name);
  }
};

std::vector<RunFact> compare(const RunOption &option, RunOptions &run) {
  RunOptions unset;
  std::vector<RunFact> facts;
  addFact(facts, option.name, option.in(run), option.in(unset), option.agreed);
  return facts;
}

const RunOption &find(std::string_view name) {
  for (const RunOption &option : listRunOptions())
    if (option.name == name)
      return option;
  ADD_FAILURE() << name;
  return listRunOptions().front();
}

TEST(RunOptions, HaveNamesAndMembersOfTheirOwn) {
  std::set<std::string> names, python;
  for (const RunOption &option : listRunOptions()) {
    SCOPED_TRACE(option.name);
    EXPECT_TRUE(names.insert(option.name).second);
    if (!option.pythonName().empty()) {
      EXPECT_TRUE(python.insert(option.pythonName()).second);
    }
    EXPECT_FALSE(option.help.empty());
    // Nobody else's value is another one by it.
    RunOptions changed, unset;
    std::visit(Changer(), option.in(changed));
    for (const RunOption &other : listRunOptions())
      EXPECT_EQ(toText(other.in(changed)) != toText(other.in(unset)),
                &other == &option)
          << other.name;
  }
}

TEST(RunOptions, AreComparedAsTheirRowsSay) {
  for (const RunOption &option : listRunOptions()) {
    SCOPED_TRACE(option.name);
    RunOptions unset, changed;
    std::vector<RunFact> before = compare(option, unset);
    std::visit(Changer(), option.in(changed));
    std::vector<RunFact> after = compare(option, changed);
    if (option.agreed == Agreed::no) {
      EXPECT_TRUE(before.empty() && after.empty());
      continue;
    }
    ASSERT_EQ(before.size(), 1u);
    EXPECT_EQ(before[0].name, "--" + option.name);
    EXPECT_EQ(before[0].value, "");
    EXPECT_NE(after.at(0).value, "");
  }
}

TEST(RunOptions, OfFilesAreComparedByWhatCounts) {
  RunOptions run;
  run.train.metricsPath = "here.jsonl";
  run.launch.session.dataPath = "data.safetensors";
  run.launch.session.lr = 0.5;
  EXPECT_EQ(compare(find("metrics"), run)[0].value, "given");
  EXPECT_EQ(compare(find("metrics"), run)[0].shown, "here.jsonl");
  EXPECT_EQ(compare(find("data"), run)[0].value, "given");
  EXPECT_EQ(compare(find("lr"), run)[0].value, "0.5");
  run.launch.session.dataPath = "sample";
  EXPECT_EQ(compare(find("data"), run)[0].value, "sample");
}

TEST(RunOptions, StepsUntilTheDataEndsAreNotGiven) {
  RunOptions run;
  run.launch.session.steps = kUntilDataEnds;
  EXPECT_NE(compare(find("steps"), run)[0].value, "");
  EXPECT_EQ(compare(find("steps"), run)[0].shown, "not given");
  run.launch.session.steps = 0;
  EXPECT_EQ(compare(find("steps"), run)[0].shown, "0");
}

TEST(RunOptions, OfASessionAreAmongItsFacts) {
  SessionOptions options;
  options.steps = 3;
  options.checkpointPath = "ck";
  options.mayLackCheckpoint = true;
  auto fact = [](const char *name, const char *value) {
    return testing::Contains(
        testing::AllOf(testing::Field(&RunFact::name, name),
                       testing::Field(&RunFact::value, value)));
  };
  std::vector<RunFact> facts = collectFacts(options);
  EXPECT_THAT(facts, fact("--steps", "3"));
  EXPECT_THAT(facts, fact("--load", "latest of ck"));
  EXPECT_THAT(facts, fact("--seed", ""));
}

TEST(RunOptions, HelpOfDataNamesEachKey) {
  for (const char *key : {
#define FSDP_DATA_KEY(name, ...) #name,
#include "runtime/data/DataKeys.def"
           "ignore", "repeat", "exported"})
    EXPECT_THAT(find("data-options").help, testing::HasSubstr(key));
}

} // namespace
