//===- ConformanceTest.cpp - Every back end does what it must -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Conformance.h"
#include "Harness.h"

#include <gtest/gtest.h>

#include <ostream>

using namespace fsdp::test;

namespace {

struct Case {
  Check check;
  RankSetup setup;
};

void PrintTo(const Case &each, std::ostream *stream) {
  *stream << each.check.name << " on " << each.setup.worldSize << " ranks of "
          << each.setup.backend;
}

class Conformance : public testing::TestWithParam<Case> {};

TEST_P(Conformance, Holds) {
  const RankSetup &setup = GetParam().setup;
  std::vector<std::string> outcomes = runRanks(setup, GetParam().check.run);
  for (size_t rank = 0; rank < outcomes.size(); ++rank)
    EXPECT_EQ(outcomes[rank], "") << "rank " << rank;
}

std::vector<Case> allCases() {
  std::vector<Case> cases;
  for (const Check &check : conformanceChecks()) {
    for (int world : {1, 2, 3, 4, 5})
      cases.push_back({check, {"local", world}});
    for (int world : {1, 2, 3, 4})
      cases.push_back({check, {"gloo", world}});
  }
  RankSetup file{"gloo", 2};
  file.meetInFile = true;
  cases.push_back({conformanceChecks().front(), file});
  return cases;
}

INSTANTIATE_TEST_SUITE_P(, Conformance, testing::ValuesIn(allCases()),
                         [](const auto &info) {
                           const Case &each = info.param;
                           return std::string(each.check.name) + "_" +
                                  each.setup.backend + "_" +
                                  std::to_string(each.setup.worldSize) +
                                  (each.setup.meetInFile ? "_file" : "");
                         });

} // namespace
