//===- Averages.cpp - Averages of what is trained -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/states/Averages.h"

#include "plan/DType.h"
#include "plan/FirstValues.h"
#include "plan/StateParts.h"
#include "runtime/device/DTypes.h"
#include "runtime/states/Parts.h"
#include "support/Error.h"

#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <cstring>
#include <set>

using namespace fsdp;

/// What is converted at once.
static constexpr uint64_t kAveragedAtOnce = 1 << 20;

std::map<size_t, size_t> fsdp::listAverages(const plan::PlanT &plan) {
  std::map<size_t, size_t> averages;
  for (size_t i = 0; i < plan.states.size(); ++i)
    if (isAverage(*plan.states[i]))
      averages[static_cast<size_t>(plan.states[i]->of)] = i;
  return averages;
}

void fsdp::checkAverages(const plan::PlanT &plan) {
  if (listAverages(plan).empty())
    throw Error(ErrorId::RuntimeUnsupported,
                "the artifact keeps no averages of the weights; compile the "
                "model with ema: {decay: …} in the config");
}

namespace {
/// Neighbouring elements of a rank's part of a state with bytes of its own.
struct Elements {
  const plan::StateT *home;
  uint64_t first, count;
};
} // namespace

/// All that the rank has of a state, with padding; of a member its own.
static Elements elementsOf(const plan::PlanT &plan, const plan::StateT &state,
                           int rank) {
  const plan::StateT &home = homeOf(plan, state);
  if (state.flat < 0)
    return {&home, 0, roomOf(home)};
  std::vector<Part> parts = ownParts(plan, state, rank);
  Elements all{&home, parts.empty() ? 0 : parts.front().first, 0};
  for (const Part &part : parts)
    all.count += part.region.elements();
  return all;
}

/// As many, in the type of where they come to lie.
static void copy(const Arenas &arenas, const Elements &from,
                 const Elements &to) {
  uint64_t fromBytes = dtypeBytes(from.home->dtype);
  uint64_t toBytes = dtypeBytes(to.home->dtype);
  for (uint64_t done = 0; done < from.count; done += kAveragedAtOnce) {
    uint64_t count = std::min(kAveragedAtOnce, from.count - done);
    auto size = static_cast<int64_t>(count);
    BytesToRead source(arenas.of(*from.home),
                       from.home->offset + (from.first + done) * fromBytes,
                       count * fromBytes);
    BytesToWrite target(arenas.of(*to.home),
                        to.home->offset + (to.first + done) * toBytes,
                        count * toBytes);
    at::from_blob(target.data(), {size}, toScalarType(to.home->dtype))
        .copy_(at::from_blob(const_cast<char *>(source.data()), {size},
                             toScalarType(from.home->dtype)));
    target.flush();
  }
}

void fsdp::beginAverages(
    const plan::PlanT &plan, int rank, const Arenas &arenas,
    const std::function<bool(const plan::StateT &)> &isWanted) {
  for (auto [param, average] : listAverages(plan))
    if (isWanted(*plan.states[average]))
      copy(arenas, elementsOf(plan, *plan.states[param], rank),
           elementsOf(plan, *plan.states[average], rank));
}

AveragedParameters::AveragedParameters(const plan::PlanT &plan, int rank,
                                       const Arenas &arenas)
    : arenas(arenas) {
  std::map<size_t, size_t> averages = listAverages(plan);
  std::set<const plan::StateT *> homes;
  for (auto [param, average] : averages)
    homes.insert(&homeOf(plan, *plan.states[param]));
  for (const plan::StateT *home : homes) {
    BytesToRead own(arenas.of(*home), home->offset, home->bytes);
    kept.push_back({home, {own.data(), own.data() + home->bytes}});
  }
  for (auto [param, average] : averages)
    copy(arenas, elementsOf(plan, *plan.states[average], rank),
         elementsOf(plan, *plan.states[param], rank));
}

AveragedParameters::~AveragedParameters() {
  for (const Kept &each : kept)
    arenas.of(*each.state)
        .write(each.state->offset, each.bytes.data(), each.bytes.size());
}
