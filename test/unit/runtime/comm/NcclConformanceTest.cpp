//===- NcclConformanceTest.cpp - NCCL does what every back end must -------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// On GPUs, where there are any: a program of its own, since whatever is linked
// to CUDA loads it.
//
//===----------------------------------------------------------------------===//

#include "Conformance.h"
#include "Harness.h"
#include "OnDevice.h"

#include <gtest/gtest.h>

#include <ostream>
#include <string_view>

using namespace fsdp::test;

namespace {

struct Case {
  Check check;
  int worldSize;
};

void PrintTo(const Case &each, std::ostream *stream) {
  *stream << each.check.name << " on " << each.worldSize << " ranks of nccl";
}

class NcclConformance : public testing::TestWithParam<Case> {};

TEST_P(NcclConformance, Holds) {
  static const int gpus = countGpus();
  RankSetup setup{"nccl", GetParam().worldSize};
  if (gpus < setup.worldSize)
    GTEST_SKIP() << "needs " << setup.worldSize << " GPUs, found " << gpus;
  setup.connect = connectNcclOnGpu;
  std::vector<std::string> outcomes = runRanks(setup, GetParam().check.run);
  for (size_t rank = 0; rank < outcomes.size(); ++rank)
    EXPECT_EQ(outcomes[rank], "") << "rank " << rank;
}

std::vector<Case> allCases() {
  std::vector<Case> cases;
  // NCCL sums in an order of its own, and multiplies means by a reciprocal: the
  // same where the number of ranks is a power of two.
  for (const Check &check : conformanceChecks())
    if (std::string_view(check.name) != "Order")
      for (int world : {1, 2, 4})
        cases.push_back({check, world});
  return cases;
}

INSTANTIATE_TEST_SUITE_P(, NcclConformance, testing::ValuesIn(allCases()),
                         [](const auto &info) {
                           return std::string(info.param.check.name) + "_" +
                                  std::to_string(info.param.worldSize);
                         });

} // namespace
