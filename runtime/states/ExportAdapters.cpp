//===- ExportAdapters.cpp - Adapters, merged and by themselves ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/Quantized.h"
#include "plan/StateParts.h"
#include "runtime/device/DTypes.h"
#include "runtime/states/AdapterFolder.h"
#include "runtime/states/Exporter.h"
#include "support/AdapterNames.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <filesystem>
#include <utility>

using namespace fsdp;

//===----------------------------------------------------------------------===//
// By themselves
//===----------------------------------------------------------------------===//

/// What PeftModel.from_pretrained reads: one file, under the names that its
/// modules have around those of the model.
void Exporter::addAdapterFolder(const std::string &path) {
  namespace fs = std::filesystem;
  for (Entry &entry : entries)
    for (std::string &name : entry.names)
      name = std::string(kPeftPrefix) + name;
  addFile((fs::path(path) / kAdapterWeights).string(),
          std::move(divide(UINT64_MAX).front()));
  index.emplace((fs::path(path) / kAdapterConfig).string());
  index->write(writeAdapterConfig(plan));
}

/// Of adapters whose bases lack what they began with.
void Exporter::addWidened() {
  std::map<const plan::StateT *, std::pair<int, int64_t>> firsts;
  for (const auto &adapter : plan.adapters) {
    if (adapter->first_down < 0)
      continue;
    firsts[plan.states[adapter->down].get()] = {0, adapter->first_down};
    firsts[plan.states[adapter->up].get()] = {1, adapter->first_up};
  }
  for (size_t i = 0, count = entries.size(); i < count; ++i) {
    auto found = firsts.find(entries[i].state);
    if (found == firsts.end())
      continue;
    auto [dim, first] = found->second;
    entries[i].widened = dim;
    entries[i].first = plan.states[first].get();
    entries.push_back(makeEntry({static_cast<size_t>(first), {}}));
    if (fabric.rank() == 0)
      for (const plan::StateT *state : {entries[i].state, entries[i].first})
        held[state] =
            at::empty(wholeShape(plan, *state), toScalarType(state->dtype));
  }
}

/// What is written of the entry.
std::vector<int64_t> Exporter::shapeOf(const Entry &entry) const {
  std::vector<int64_t> shape = modelShape(plan, *entry.state);
  if (entry.widened >= 0)
    shape[static_cast<size_t>(entry.widened)] *= 2;
  return shape;
}

void Exporter::writeWidened() {
  for (const Entry &entry : entries) {
    if (entry.widened < 0)
      continue;
    at::Tensor own = held.at(entry.state), first = held.at(entry.first);
    if (entry.widened == 1)
      first = first.neg();
    at::Tensor all = at::cat({own, first}, entry.widened).contiguous();
    for (const Place &place : entry.places)
      files[place.file]->writeAt(
          place.offset,
          {static_cast<const char *>(all.data_ptr()), all.nbytes()});
  }
}

//===----------------------------------------------------------------------===//
// Merged
//===----------------------------------------------------------------------===//

/// Rank 0 then holds the state, and all that lie in one flat state with it. All
/// ranks move the same.
void Exporter::gatherMatrix(const plan::StateT *state) {
  for (const Entry &each : matrices) {
    if (each.state != state || !gathered.insert(each.home).second)
      continue;
    Home of{plan.states[each.home].get(), {}};
    for (const Entry &member : matrices)
      if (member.home == each.home) {
        of.entries.push_back(&member);
        if (isWriter())
          held[member.state] = at::empty(wholeShape(plan, *member.state),
                                         toScalarType(member.state->dtype));
      }
    gather(of);
  }
}

/// Rank 0 then has what is made of the home's bases.
void Exporter::gatherAdapters(const Home &home) {
  deltas.clear();
  bool hasMagnitudes = false;
  for (const Entry *base : home.entries) {
    if (!base->adapter)
      continue;
    const plan::StateT *states[3] = {};
    int64_t indices[] = {base->adapter->down, base->adapter->up,
                         base->adapter->magnitude};
    for (size_t i = 0; i < 3; ++i)
      if (indices[i] >= 0)
        gatherMatrix(
            states[i] =
                plan.states[resolve(static_cast<size_t>(indices[i]))].get());
    hasMagnitudes |= states[2] != nullptr;
    if (!isWriter())
      continue;
    at::Tensor parts[3];
    for (size_t i = 0; i < 3; ++i)
      if (states[i]) {
        parts[i] = held.at(states[i]);
        held.erase(states[i]);
      }
    deltas.emplace(base->state,
                   MergedDelta(*base->adapter, parts[0], parts[1], parts[2]));
  }
  if (!hasMagnitudes)
    return;
  // The norms of all of a base before the first of its elements.
  isMeasuring = true;
  gather(home);
  isMeasuring = false;
}
