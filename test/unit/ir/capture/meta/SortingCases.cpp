//===- SortingCases.cpp - Order statistics on all kinds of arguments ----===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "test/unit/ir/capture/meta/Cases.h"

using namespace fsdp::meta::test;

std::vector<Case> fsdp::meta::test::sorting() {
  std::vector<Case> cases;
  for (const char *op : {"cummax", "cummin", "logcumsumexp"})
    for (int64_t dim : {0, -1})
      cases.push_back({op, [=](const Maker &make) -> Stack {
                         return {make({4, 5, 6}), dim};
                       }});
  for (bool keepdim : {false, true}) {
    for (const char *op : {"median.dim", "nanmedian.dim", "mode"})
      for (int64_t dim : {0, -1})
        cases.push_back({op, [=](const Maker &make) -> Stack {
                           return {make({4, 5, 6}), dim, keepdim};
                         }});
    cases.push_back({"kthvalue", [=](const Maker &make) -> Stack {
                       return {make({4, 5, 6}), 2, 1, keepdim};
                     }});
  }
  return cases;
}
