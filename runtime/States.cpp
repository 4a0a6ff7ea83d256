//===- States.cpp - First values of states and inputs ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/States.h"

#include "runtime/Transfers.h"
#include "runtime/plan/DType.h"
#include "runtime/plan/Shape.h"
#include "runtime/support/Error.h"

#include <algorithm>
#include <cstring>

using namespace fsdp;

OwnRows fsdp::ownRows(const plan::PlanT &plan, const plan::StateT &state,
                      int rank) {
  OwnRows rows;
  int64_t all = state.shape.empty() ? 1 : state.shape[0];
  rows.rowBytes = dtypeBytes(state.dtype);
  for (size_t i = 1; i < state.shape.size(); ++i)
    rows.rowBytes *= static_cast<uint64_t>(state.shape[i]);
  if (state.shard_dim < 0) {
    rows.count = rows.room = all;
    return rows;
  }
  if (state.shard_dim != 0)
    throw Error(ErrorId::RuntimeUnsupported,
                "state '" + state.name + "' is sharded on dim " +
                    std::to_string(state.shard_dim) +
                    "; expected dim 0, the only one that is supported");
  const plan::GroupT &group = *plan.groups[state.group];
  rows.room = shardRows(all, group.size);
  rows.first = std::min(groupPosition(group, rank) * rows.room, all);
  rows.count = std::min(rows.room, all - rows.first);
  return rows;
}

bool fsdp::needsModelFile(const plan::PlanT &plan) {
  auto hasSource = [](const auto &state) { return state->source != nullptr; };
  auto hasSample = [](const auto &input) { return input->sample != nullptr; };
  return std::any_of(plan.states.begin(), plan.states.end(), hasSource) ||
         std::any_of(plan.inputs.begin(), plan.inputs.end(), hasSample);
}

void fsdp::loadStates(const plan::PlanT &plan, int rank, const Arena &arena,
                      const ModelFile *model) {
  for (const auto &state : plan.states) {
    OwnRows rows = ownRows(plan, *state, rank);
    char *to = arena.at(state->offset);
    uint64_t bytes = static_cast<uint64_t>(rows.count) * rows.rowBytes;
    if (state->source)
      model->readRows(*state->source, state->shape, state->dtype, rows.first,
                      rows.count, to);
    else if (state->init.empty())
      std::memset(to, 0, bytes);
    else
      for (uint64_t at = 0; at < bytes; at += state->init.size())
        std::memcpy(to + at, state->init.data(), state->init.size());
    std::memset(to + bytes, 0,
                static_cast<uint64_t>(rows.room) * rows.rowBytes - bytes);
  }
}
