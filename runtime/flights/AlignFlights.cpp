//===- AlignFlights.cpp - The same collective on all ranks ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/flights/AlignFlights.h"

#include "support/Error.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <set>
#include <tuple>

using namespace fsdp;

/// Of a rank: its thread waits for one, each group of a device for one more.
static constexpr size_t kMostWaits = 64;
/// Clocks of several machines may differ by so much (ns).
static constexpr int64_t kClocks = 2'000'000'000;

std::vector<int> FlightAlignment::Wait::blamed() const {
  // What is complete for one rank, all have started.
  std::vector<int> all = notReached;
  if (!isDone)
    all.insert(all.end(), noRecord.begin(), noRecord.end());
  if (all.empty())
    all = elsewhere;
  if (all.empty() && awaited >= 0)
    all.push_back(awaited);
  if (all.empty())
    all = noRecord;
  std::ranges::sort(all);
  return all;
}

static void checkOneRun(const std::vector<FlightRecord> &records) {
  std::set<int> seen;
  const FlightRecord &first = records.front();
  auto refuse = [](const std::string &what) {
    throw Error(ErrorId::FlightRecordInvalid,
                "the flight records are not of one run: " + what +
                    "; name a folder with the files of one run alone");
  };
  auto describe = [](const FlightRecord &record) {
    return "that of rank " + std::to_string(record.rank) + " is of run '" +
           record.run + "' with " + std::to_string(record.world) +
           " ranks and the artifact " + record.plan;
  };
  for (const FlightRecord &record : records) {
    if (!seen.insert(record.rank).second)
      refuse("two are of rank " + std::to_string(record.rank));
    if (record.run != first.run || record.world != first.world ||
        record.plan != first.plan)
      refuse(describe(record) + ", " + describe(first));
  }
}

FlightAlignment::FlightAlignment(const std::vector<FlightRecord> &records) {
  if (records.empty())
    throw Error(ErrorId::FlightRecordInvalid,
                "expected the flight records of a run, found none");
  checkOneRun(records);
  worldSize = records.front().world;
  everyone.resize(worldSize);
  std::iota(everyone.begin(), everyone.end(), 0);
  const FlightRecord &first =
      *std::ranges::min_element(records, {}, &FlightRecord::written);
  firstWritten = first.written;
  for (const FlightRecord &record : records)
    add(record,
        record.host == first.host ? firstWritten : firstWritten + kClocks);
  std::ranges::copy_if(everyone, std::back_inserter(absent),
                       [&](int rank) { return !known.contains(rank); });
}

void FlightAlignment::add(const FlightRecord &record, int64_t end) {
  Known &rank = known[record.rank];
  rank.record = &record;
  rank.end = end;
  std::vector<size_t> transfers, connections; // by the record's groups
  for (const FlightRecord::Group &group : record.groups) {
    transfers.push_back(addLine(group, /*isGroup=*/true));
    connections.push_back(addLine(group, /*isGroup=*/false));
    rank.groups[transfers.back()] = {&group, group.issued};
  }
  for (const Collective &flight : record.collectives) {
    bool isTransfer = flight.group && flight.kind != FlightKind::connect;
    if (flight.issued > end) {
      if (isTransfer) {
        uint64_t &issued = rank.groups.at(transfers[*flight.group]).issued;
        issued = std::min(issued, flight.position);
      }
      continue;
    }
    FlightKey key;
    if (isTransfer)
      key = {transfers[*flight.group], flight.position};
    else if (flight.group)
      key.line = connections[*flight.group];
    else
      key.line = addLine("exchange " + flight.bucket,
                         {/*isGroup=*/false, flight.bucket, &everyone});
    rank.flights[key] = &flight;
  }
}

size_t FlightAlignment::addLine(const std::string &name, FlightLine line) {
  auto [found, isNew] = lineNames.try_emplace(name, lines.size());
  if (isNew)
    lines.push_back(std::move(line));
  return found->second;
}

size_t FlightAlignment::addLine(const FlightRecord::Group &group,
                                bool isGroup) {
  std::string name = (isGroup ? "group " : "connect ") + group.name + '#' +
                     std::to_string(group.ordinal);
  for (int rank : group.ranks)
    name += ',' + std::to_string(rank);
  return addLine(name, {isGroup, group.name, &group.ranks});
}

FlightState FlightAlignment::stateOf(const Known &rank,
                                     const Collective &flight) const {
  auto isPast = [&](int64_t time) { return time != 0 && time <= rank.end; };
  if (isPast(flight.completed))
    return FlightState::complete;
  if (flight.group && flight.kind != FlightKind::connect) {
    const FlightRecord::Group &group = rank.record->groups[*flight.group];
    if (group.turn && flight.position < *group.turn)
      return FlightState::complete;
    if (group.turn && flight.position == *group.turn && isPast(group.turnBegan))
      return FlightState::waiting;
  }
  return isPast(flight.waited) ? FlightState::waiting : FlightState::started;
}

FlightState FlightAlignment::stateOf(int number, const FlightKey &key,
                                     int64_t since) const {
  const Known &rank = known.at(number);
  if (auto found = rank.flights.find(key); found != rank.flights.end())
    return stateOf(rank, *found->second);
  const auto &kept = rank.record->collectives;
  auto goesBackTo = [&](int64_t time) {
    return kept.size() == rank.record->recorded ||
           (!kept.empty() && kept.front().issued <= time);
  };
  auto group = rank.groups.find(key.line);
  // Exchanges and connections are known by name alone: one that is not in the
  // record did not happen, if the record goes back far enough.
  if (group == rank.groups.end())
    return goesBackTo(std::min(since, rank.end)) ? FlightState::notReached
                                                 : FlightState::unknown;
  if (key.position >= group->second.issued)
    return FlightState::notReached;
  return goesBackTo(rank.end) ? FlightState::complete : FlightState::unknown;
}

bool FlightAlignment::isCompleteAnywhere(const FlightKey &key) const {
  return std::ranges::any_of(known, [&](const auto &entry) {
    auto found = entry.second.flights.find(key);
    return found != entry.second.flights.end() &&
           stateOf(entry.second, *found->second) == FlightState::complete;
  });
}

std::vector<FlightAlignment::Wait> FlightAlignment::findWaits() const {
  std::vector<Wait> waits;
  for (const auto &[number, rank] : known) {
    size_t count = 0;
    for (const auto &[key, flight] : rank.flights) {
      if (stateOf(rank, *flight) != FlightState::waiting ||
          ++count > kMostWaits)
        continue;
      Wait wait{number, key, flight, flight->waited, -1, {}, {}, {}, false};
      if (auto group = rank.groups.find(key.line); group != rank.groups.end()) {
        const FlightRecord::Group &recorded = *group->second.recorded;
        // Unless the rank has gone on meanwhile.
        if (flight->completed == 0)
          wait.awaited = recorded.awaited;
        if (recorded.turn)
          wait.since = recorded.turnBegan;
      }
      blame(wait);
      waits.push_back(std::move(wait));
    }
  }
  believeEarliest(waits);
  std::ranges::sort(waits, {}, [](const Wait &wait) {
    return std::tuple(wait.since, wait.rank);
  });
  return waits;
}

/// Of two that wait for each other's part, one was stopped, and misses the
/// other's because that gave up meanwhile: it wrote its record last.
void FlightAlignment::believeEarliest(std::vector<Wait> &waits) const {
  std::map<std::pair<FlightKey, int>, Wait *> byRank;
  for (Wait &wait : waits)
    byRank[{wait.key, wait.rank}] = &wait;
  for (Wait &wait : waits) {
    auto other = byRank.find({wait.key, wait.awaited});
    if (other != byRank.end() && other->second->awaited == wait.rank &&
        known.at(other->second->rank).record->written <
            known.at(wait.rank).record->written)
      wait.awaited = -1;
  }
}

void FlightAlignment::blame(Wait &wait) const {
  wait.isDone = isCompleteAnywhere(wait.key);
  for (int member : *lines[wait.key.line].ranks) {
    if (member == wait.rank)
      continue;
    if (!known.contains(member)) {
      wait.noRecord.push_back(member);
      continue;
    }
    FlightState state = stateOf(member, wait.key, wait.since);
    if (state == FlightState::notReached)
      wait.notReached.push_back(member);
    else if (state == FlightState::started)
      wait.elsewhere.push_back(member);
    else if (state == FlightState::complete && member == wait.awaited)
      wait.awaited = -1; // It took part, whatever became of that.
  }
}
