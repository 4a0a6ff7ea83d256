//===- States.cpp - First values of states and inputs ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/states/States.h"

#include "plan/DType.h"
#include "plan/FirstValues.h"
#include "plan/StateParts.h"
#include "runtime/states/AdapterStarts.h"
#include "runtime/states/FirstValues.h"
#include "runtime/states/Parts.h"

#include <algorithm>
#include <cstring>
#include <optional>

using namespace fsdp;

bool fsdp::needsModelFile(const plan::PlanT &plan) {
  auto hasSource = [](const auto &state) { return state->source != nullptr; };
  auto hasSample = [](const auto &input) { return input->sample != nullptr; };
  return std::any_of(plan.states.begin(), plan.states.end(), hasSource) ||
         std::any_of(plan.inputs.begin(), plan.inputs.end(), hasSample);
}

void fsdp::setSeed(const plan::PlanT &plan, const Arenas &arenas,
                   uint64_t seed) {
  for (const auto &state : plan.states)
    if (state->role == plan::Role::random) {
      uint64_t first[] = {seed, 0};
      arenas.of(*state).write(state->offset, first, sizeof(first));
    }
}

void fsdp::loadStates(const plan::PlanT &plan, int rank, const Arenas &arenas,
                      const ModelFile *model, const WeightReader *weights,
                      const std::function<bool(const plan::StateT &)> &isWanted,
                      RecordChecks *checks, Fabric *fabric) {
  if (weights && rank == 0)
    weights->logCodes();
  std::optional<AdapterStarts> starts;
  if (fabric && needsAdapterStarts(plan))
    starts.emplace(
        plan, *fabric, isWanted,
        [&](const plan::StateT &state) {
          return FirstValues(plan, state, model, weights, nullptr).readWhole();
        },
        [&](const plan::StateT &state) {
          return FirstValues(plan, state, model, weights, nullptr).isAsCoded();
        });
  for (const auto &state : plan.states)
    if (state->layout == plan::Layout::flat)
      arenas.of(*state).fill(state->offset, 0, state->bytes);
  for (const auto &state : plan.states) {
    if (state->layout == plan::Layout::flat || isAverage(*state) ||
        !isWanted(*state))
      continue;
    std::vector<Part> parts = ownParts(plan, *state, rank);
    uint64_t elements = 0;
    for (const Part &part : parts)
      elements += part.region.elements();
    // Of a flat state a member has a range alone, of others all is written.
    bool isMember = state->flat >= 0;
    const plan::StateT &home = homeOf(plan, *state);
    uint64_t element = dtypeBytes(home.dtype);
    uint64_t begin = isMember && !parts.empty() ? parts.front().first : 0;
    uint64_t room = isMember ? elements : roomOf(home);
    BytesToWrite to(arenas.of(home), home.offset + begin * element,
                    room * element);
    if (elements != room)
      std::memset(to.data(), 0, room * element);
    FirstValues values(plan, *state, model, weights, checks,
                       starts ? &*starts : nullptr);
    for (const Part &part : parts)
      values.read(part.region, part.strides,
                  to.data() + (part.first - begin) * element);
    to.flush();
  }
}
