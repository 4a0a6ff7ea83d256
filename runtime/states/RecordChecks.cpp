//===- RecordChecks.cpp - First values are what was exported --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/states/RecordChecks.h"

#include "runtime/exec/Transfers.h"
#include "runtime/states/Parts.h"
#include "support/Crc.h"

#include <algorithm>

using namespace fsdp;

static constexpr size_t kDigits = 8;

RecordChecks::RecordChecks(
    const plan::PlanT &plan, const ModelFile &model,
    const std::function<bool(const plan::StateT &)> &isWanted)
    : plan(plan), model(model) {
  std::map<const ZipEntry *, size_t> uses;
  std::vector<std::pair<const plan::StateT *, const ZipEntry *>> read;
  for (const auto &state : plan.states)
    if (state->source && state->source->bytes != 0 && isWanted(*state)) {
      const ZipEntry &entry = model.entryOf(*state->source);
      ++uses[&entry];
      read.emplace_back(state.get(), &entry);
    }
  std::set<const ZipEntry *> checked;
  for (auto [state, entry] : read) {
    const plan::RecordT &record = *state->source;
    if (uses[entry] == 1 && record.strides.empty() &&
        record.offset == entry->offset && record.bytes == entry->bytes) {
      entryOf[state] = entries.size();
      entries.push_back({entry, state});
    } else if (checked.insert(entry).second) {
      model.checkEntry(*entry, state->name);
    }
  }
}

void RecordChecks::note(const plan::StateT &state, uint64_t begin,
                        uint64_t bytes, const char *data) {
  auto it = entryOf.find(&state);
  if (it == entryOf.end())
    return;
  Entry &entry = entries[it->second];
  uint64_t behind = entry.entry->bytes - begin - bytes;
  entry.share ^= crc32Share(crc32Of(data, bytes), behind);
}

void RecordChecks::finish(Fabric &fabric) const {
  // Back ends that play one rank of many have its own rows alone.
  std::string mine = std::to_string(fabric.rank()) + ":";
  for (const Entry &each : entries)
    mine += crcText(each.share);
  std::vector<std::string> all = {mine};
  if (fabric.worldSize() > 1)
    all = fabric.exchange("record-checks", mine);
  for (size_t rank = 0; rank < all.size(); ++rank)
    if (!all[rank].starts_with(std::to_string(rank) + ":") &&
        fabric.worldSize() > 1)
      return;
  auto shareOf = [&](int rank, size_t index) {
    const std::string &text = all[static_cast<size_t>(rank)];
    return static_cast<uint32_t>(
        std::stoul(text.substr(text.find(':') + 1 + index * kDigits, kDigits),
                   nullptr, 16));
  };
  auto world = static_cast<int>(all.size());
  for (size_t i = 0; i < entries.size(); ++i) {
    const Entry &each = entries[i];
    std::vector<const plan::GroupT *> cuts = cutsOf(plan, *each.state);
    for (int rank = 0; rank < world; ++rank) {
      // The first rank of each grid speaks for it.
      if (std::ranges::any_of(cuts, [&](const plan::GroupT *group) {
            return groupPosition(*group, rank) != 0;
          }))
        continue;
      uint32_t crc = 0;
      for (int reader : ranksAcross(cuts, rank))
        crc ^= shareOf(reader, i);
      model.checkSum(*each.entry, crc, each.state->name);
    }
  }
}
