//===- StateParts.cpp - How the model's tensors are cut -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/StateParts.h"

using namespace fsdp;

const plan::StateT &fsdp::homeOf(const plan::PlanT &plan,
                                 const plan::StateT &state) {
  return state.flat >= 0 ? *plan.states[state.flat] : state;
}

const plan::GroupT *fsdp::splitOf(const plan::PlanT &plan,
                                  const plan::StateT &state) {
  return state.split_dim < 0 ? nullptr : plan.groups[state.split_group].get();
}

const plan::GroupT *fsdp::shardsOf(const plan::PlanT &plan,
                                   const plan::StateT &state) {
  const plan::StateT &home = homeOf(plan, state);
  return home.shard_dim < 0 ? nullptr : plan.groups[home.group].get();
}

std::vector<int64_t> fsdp::wholeShape(const plan::PlanT &plan,
                                      const plan::StateT &state) {
  std::vector<int64_t> shape = state.shape;
  if (const plan::GroupT *split = splitOf(plan, state))
    shape[static_cast<size_t>(state.split_dim)] *= split->size;
  return shape;
}

bool fsdp::areApart(const plan::GroupT &a, const plan::GroupT &b) {
  // One rank's groups have a place on every axis.
  if (a.size == 1 || b.size == 1)
    return true;
  uint64_t endA = uint64_t{a.size} * a.stride;
  uint64_t endB = uint64_t{b.size} * b.stride;
  return b.stride % endA == 0 || a.stride % endB == 0;
}
