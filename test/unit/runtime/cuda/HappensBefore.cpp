//===- HappensBefore.cpp - Which accesses nothing orders ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "HappensBefore.h"

#include <algorithm>

using namespace fsdp::test;

HappensBefore::Actor HappensBefore::add(std::string name) {
  actors.push_back({std::move(name), {}});
  return actors.size() - 1;
}

void HappensBefore::follow(Actor actor, const Clock &clock) {
  Clock &own = actors[actor].clock;
  own.resize(std::max(own.size(), clock.size()));
  for (size_t i = 0; i < clock.size(); ++i)
    own[i] = std::max(own[i], clock[i]);
}

void HappensBefore::begin(Actor actor) {
  Clock &own = actors[actor].clock;
  own.resize(std::max(own.size(), actor + 1));
  ++own[actor];
}

uint32_t HappensBefore::number(const std::string &what) {
  auto [found, isNew] =
      numbers.try_emplace(what, static_cast<uint32_t>(texts.size()));
  if (isNew)
    texts.push_back(what);
  return found->second;
}

/// The first segment that begins at `at` or behind it, none reaching across.
HappensBefore::Map::iterator HappensBefore::splitAt(uintptr_t at) {
  auto next = memory.lower_bound(at);
  if (next == memory.begin())
    return next;
  auto before = std::prev(next);
  if (before->second.end <= at)
    return next;
  Bytes behind = before->second;
  before->second.end = at;
  return memory.emplace_hint(next, at, std::move(behind));
}

void HappensBefore::forget(const void *begin, size_t bytes) {
  auto from = reinterpret_cast<uintptr_t>(begin);
  auto first = splitAt(from);
  memory.erase(first, splitAt(from + bytes));
}

void HappensBefore::compare(const Access &earlier, bool wasWrite,
                            const Access &later, bool isWrite, uintptr_t begin,
                            uintptr_t end) {
  if (earlier.actor == later.actor)
    return;
  ++pairs;
  const Clock &knows = actors[later.actor].clock;
  if (earlier.actor < knows.size() && knows[earlier.actor] >= earlier.time)
    return;
  if (!reported.insert({earlier.what, later.what}).second)
    return;
  auto tell = [&](const Access &access, bool writes) {
    return texts[access.what] + " " + (writes ? "writes" : "reads") + " on " +
           actors[access.actor].name;
  };
  found.push_back(tell(earlier, wasWrite) + ", and nothing orders it before " +
                  tell(later, isWrite) + " (" + std::to_string(end - begin) +
                  " bytes)");
}

void HappensBefore::access(Actor actor, const void *at, size_t bytes,
                           bool isWrite, const std::string &what) {
  if (bytes == 0)
    return;
  auto begin = reinterpret_cast<uintptr_t>(at);
  const uintptr_t end = begin + bytes;
  const Clock &own = actors[actor].clock;
  const Access mine{actor, actor < own.size() ? own[actor] : 0, number(what)};
  auto segment = splitAt(begin);
  splitAt(end);
  while (begin < end) {
    if (segment == memory.end() || segment->first > begin) {
      uintptr_t gapEnd =
          segment == memory.end() ? end : std::min(end, segment->first);
      segment = memory.emplace_hint(segment, begin, Bytes{gapEnd, {}, {}});
    }
    Bytes &here = segment->second;
    for (const Access &write : here.writes)
      compare(write, true, mine, isWrite, begin, here.end);
    if (isWrite) {
      for (const Access &read : here.reads)
        compare(read, false, mine, true, begin, here.end);
      here.writes = {mine};
      here.reads.clear();
    } else {
      auto same = std::ranges::find(here.reads, actor, &Access::actor);
      if (same != here.reads.end())
        *same = mine;
      else
        here.reads.push_back(mine);
    }
    begin = here.end;
    ++segment;
  }
}
