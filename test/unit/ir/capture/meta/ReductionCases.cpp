//===- ReductionCases.cpp - Reductions on all kinds of arguments --------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "test/unit/ir/capture/meta/Cases.h"

using namespace fsdp::meta::test;

std::vector<Case> fsdp::meta::test::reductions() {
  std::vector<Case> cases;
  for (const char *op : {"max", "min", "median", "nanmedian", "prod", "nansum"})
    cases.push_back(
        {op, [](const Maker &make) -> Stack { return {make({4, 5})}; }});
  cases.push_back({"prod", [](const Maker &make) -> Stack {
                     return {make.index({4, 5}, 3)};
                   }});
  cases.push_back({"nansum", [](const Maker &make) -> Stack {
                     return {make({4, 5, 6}), Ints{0, 2}, true};
                   }});
  cases.push_back({"count_nonzero.dim_IntList", [](const Maker &make) -> Stack {
                     return {make({4, 5, 6}), Ints{0, 2}};
                   }});
  cases.push_back(
      {"_aminmax", [](const Maker &make) -> Stack { return {make({4, 5})}; }});
  cases.push_back(
      {"histc", [](const Maker &make) -> Stack { return {make({4, 5}), 7}; }});
  for (bool keepdim : {false, true})
    cases.push_back({"_aminmax.dim", [=](const Maker &make) -> Stack {
                       return {make({4, 5, 6}), -1, keepdim};
                     }});
  for (const char *op : {"var.correction", "std.correction",
                         "var_mean.correction", "std_mean.correction"})
    for (bool keepdim : {false, true}) {
      cases.push_back({op, [=](const Maker &make) -> Stack {
                         return {make({4, 5, 6, 3}), Ints{-1}, 1, keepdim};
                       }});
      cases.push_back({op, [=](const Maker &make) -> Stack {
                         return {make({4, 5, 6, 3}), none, 0, keepdim};
                       }});
    }
  return cases;
}
