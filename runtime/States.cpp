//===- States.cpp - First values of states and inputs ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/States.h"

#include "runtime/DTypes.h"
#include "runtime/Transfers.h"
#include "runtime/plan/DType.h"
#include "runtime/plan/Shape.h"
#include "runtime/support/Error.h"
#include "runtime/weights/Initializer.h"

#include <ATen/ops/from_blob.h>

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

void fsdp::setSeed(const plan::PlanT &plan, const Arena &arena, uint64_t seed) {
  for (const auto &state : plan.states)
    if (state->role == plan::Role::random) {
      uint64_t first[] = {seed, 0};
      std::memcpy(arena.at(state->offset), first, sizeof(first));
    }
}

/// What is computed at once where it is rounded to a narrower type.
static constexpr uint64_t kBlockElements = 1 << 16;

/// Elements [first, first + count) of the unsharded state.
static void initialize(const plan::StateT &state, uint64_t seed, uint64_t first,
                       uint64_t count, char *to) {
  const plan::InitializerT &init = *state.initializer;
  InitialTensor tensor{state.name, state.shape, seed};
  if (state.dtype == plan::DType::f64)
    return computeElements<double>(init, tensor, first,
                                   {reinterpret_cast<double *>(to), count});
  if (state.dtype == plan::DType::f32)
    return computeElements<float>(init, tensor, first,
                                  {reinterpret_cast<float *>(to), count});
  std::vector<float> wide(std::min(count, kBlockElements));
  for (uint64_t done = 0; done < count;) {
    uint64_t block = std::min(kBlockElements, count - done);
    computeElements<float>(init, tensor, first + done, {wide.data(), block});
    auto size = static_cast<int64_t>(block);
    at::from_blob(to + done * dtypeBytes(state.dtype), {size},
                  toScalarType(state.dtype))
        .copy_(at::from_blob(wide.data(), {size}, at::kFloat));
    done += block;
  }
}

void fsdp::loadStates(const plan::PlanT &plan, int rank, const Arena &arena,
                      const ModelFile *model, const WeightReader *weights) {
  for (const auto &state : plan.states) {
    OwnRows rows = ownRows(plan, *state, rank);
    char *to = arena.at(state->offset);
    uint64_t bytes = static_cast<uint64_t>(rows.count) * rows.rowBytes;
    if (state->source) {
      model->readRows(*state->source, state->shape, state->dtype, rows.first,
                      rows.count, to);
    } else if (state->weight) {
      weights->readRows(*state, rows.first, rows.count, to);
    } else if (state->initializer) {
      uint64_t rowElements = rows.rowBytes / dtypeBytes(state->dtype);
      initialize(*state, plan.training->seed,
                 static_cast<uint64_t>(rows.first) * rowElements,
                 static_cast<uint64_t>(rows.count) * rowElements, to);
    } else if (state->init.empty()) {
      std::memset(to, 0, bytes);
    } else {
      for (uint64_t at = 0; at < bytes; at += state->init.size())
        std::memcpy(to + at, state->init.data(), state->init.size());
    }
    std::memset(to + bytes, 0,
                static_cast<uint64_t>(rows.room) * rows.rowBytes - bytes);
  }
}
