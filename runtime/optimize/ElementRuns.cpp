//===- ElementRuns.cpp - Where a rank's elements are in the model ---------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/optimize/ElementRuns.h"

#include "plan/StateParts.h"
#include "runtime/states/Parts.h"
#include "support/Hash.h"

#include <algorithm>

using namespace fsdp;

static void addRuns(const plan::PlanT &plan, const plan::StateT &state,
                    int rank, std::vector<ElementRun> &runs) {
  std::vector<int64_t> shape = wholeShape(plan, state);
  std::vector<int64_t> strides = contiguousStrides(shape);
  Region all = Region::all(shape);
  auto tensor = static_cast<uint32_t>(hash64(state.name));
  for (const Part &part : ownParts(plan, state, rank)) {
    auto first = static_cast<int64_t>(distance(part.region, all, strides));
    forEachRun(part.region.size, strides, part.strides,
               [&](uint64_t whole, uint64_t local, uint64_t count) {
                 runs.push_back({static_cast<int64_t>(part.first + local),
                                 first + static_cast<int64_t>(whole),
                                 static_cast<int64_t>(count), tensor});
               });
  }
}

std::vector<ElementRun> fsdp::listRuns(const plan::PlanT &plan, uint32_t state,
                                       int rank) {
  std::vector<ElementRun> runs;
  const plan::StateT &home = *plan.states[state];
  if (home.layout != plan::Layout::flat)
    addRuns(plan, home, rank, runs);
  else
    for (const auto &member : plan.states)
      if (member->flat == static_cast<int32_t>(state))
        addRuns(plan, *member, rank, runs);
  std::ranges::sort(runs, {}, &ElementRun::local);
  return runs;
}
