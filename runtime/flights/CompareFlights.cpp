//===- CompareFlights.cpp - Which rank is behind, and where ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/flights/CompareFlights.h"

#include "runtime/flights/AlignFlights.h"
#include "support/Format.h"
#include "support/Table.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <tuple>

using namespace fsdp;
using Collective = FlightRecord::Collective;
using Wait = FlightAlignment::Wait;

/// Ranks whose places are shown beside those that are behind.
static constexpr size_t kMostShown = 16;
static constexpr size_t kMostCause = 300;

namespace {

class Comparison {
public:
  explicit Comparison(std::vector<FlightRecord> taken)
      : records(takeLast(std::move(taken))), runs(records) {}
  FlightComparison run();

private:
  std::vector<FlightRecord> takeLast(std::vector<FlightRecord> taken);
  bool reportMismatch();
  bool reportWaits();
  void printHead();
  void printPlaces();
  void printBehind(int rank, const FlightKey &key);
  std::string describe(const FlightKey &key, const Collective &flight) const;
  void add(const std::string &line) { result.text += line + "\n"; }

  std::vector<int> outdated; ///< ranks
  const std::vector<FlightRecord> records;
  const FlightAlignment runs;
  FlightComparison result;
};

} // namespace

/// Once ranks write of a failure, what others were asked for earlier is no
/// longer true: those have written nothing since.
std::vector<FlightRecord>
Comparison::takeLast(std::vector<FlightRecord> taken) {
  if (std::ranges::all_of(taken, &FlightRecord::isAsked))
    return taken;
  for (const FlightRecord &record : taken)
    if (record.isAsked)
      outdated.push_back(record.rank);
  std::erase_if(taken, [](const FlightRecord &each) { return each.isAsked; });
  std::ranges::sort(outdated);
  return taken;
}

/// "ranks 0-2, 5".
template <typename Ranks>
static std::string listRanks(const Ranks &ranks) {
  std::vector<int> all(ranks.begin(), ranks.end());
  std::string text = all.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < all.size();) {
    size_t end = i + 1;
    while (end < all.size() && all[end] == all[end - 1] + 1)
      ++end;
    text += (i ? ", " : "") + std::to_string(all[i]);
    if (end - i > 1)
      text += (end - i > 2 ? "-" : ", ") + std::to_string(all[end - 1]);
    i = end;
  }
  return text;
}

static std::string seconds(int64_t nanoseconds) {
  double value = static_cast<double>(std::max<int64_t>(nanoseconds, 0)) / 1e9;
  return value < 0.1 ? formatMilliseconds(value) + " ms"
                     : formatFixed(value, 1) + " s";
}

static std::string label(const Collective &flight) {
  if (flight.kind == FlightKind::exchange)
    return "exchange of '" + flight.bucket + "'";
  if (flight.kind == FlightKind::connect)
    return "connecting group '" + flight.bucket + "'";
  return std::string(getName(flight.kind)) + " of bucket '" + flight.bucket +
         "' in step " + std::to_string(flight.step);
}

static std::string placeOf(const FlightRecord &record) {
  std::string text = "in step " + std::to_string(record.step);
  if (record.place.program.empty())
    return text + ", in none of the artifact's programs (between two of them, "
                  "or in start-up, data or checkpoints)";
  text += ", micro-batch " + std::to_string(record.microBatch) +
          ", at instruction " + std::to_string(record.place.instruction) +
          " of " + record.place.program + ": " + record.place.operation;
  if (!record.place.source.empty())
    text += " of " + record.place.source;
  return text;
}

std::string Comparison::describe(const FlightKey &key,
                                 const Collective &flight) const {
  std::string text = label(flight);
  if (const FlightLine &line = runs.lineOf(key); line.isGroup)
    text += " (number " + std::to_string(key.position) + " of group '" +
            line.name + "' of " + listRanks(*line.ranks) + ", " +
            formatBytes(flight.bytes) + ")";
  if (!flight.place.program.empty())
    text += ", instruction " + std::to_string(flight.place.instruction) +
            " of " + flight.place.program + ", micro-batch " +
            std::to_string(flight.microBatch);
  if (!flight.place.source.empty())
    text +=
        std::string(", ") +
        (flight.kind == toFlight(CollectiveKind::all_gather) ? "for " : "of ") +
        flight.place.source;
  return text;
}

void Comparison::printBehind(int rank, const FlightKey &key) {
  std::string who = "  rank " + std::to_string(rank);
  auto known = runs.ranks().find(rank);
  if (known == runs.ranks().end()) {
    add(who + " left no record: it is stopped, hangs or is gone" +
        (runs.isCompleteAnywhere(key)
             ? ""
             : ", and none has this collective complete without it"));
    return;
  }
  const auto &flights = known->second.flights;
  auto own = flights.find(key);
  const char *what = " did not reach it";
  if (own != flights.end())
    what = runs.stateOf(known->second, *own->second) == FlightState::waiting
               ? " waits for it, too, and its part did not come"
               : " started it, but does not wait for it";
  add(who + what + ": it was " + placeOf(*known->second.record));
  auto group = known->second.groups.find(key.line);
  if (own != flights.end() || group == known->second.groups.end() ||
      group->second.issued == 0)
    return;
  FlightKey last{key.line, group->second.issued - 1};
  if (auto found = flights.find(last); found != flights.end())
    add("    its last one of this group was " + describe(last, *found->second));
}

/// Ranks that others wait for, but for those that are held up themselves, which
/// only pass it on.
static std::set<int> findRoots(const std::vector<Wait> &waits) {
  std::set<int> blamed, held;
  for (const Wait &wait : waits)
    for (int rank : wait.blamed()) {
      blamed.insert(rank);
      held.insert(wait.rank);
    }
  std::set<int> roots;
  std::ranges::set_difference(blamed, held, std::inserter(roots, roots.end()));
  return roots.empty() ? blamed : roots;
}

/// What ranks wait for that nobody else's wait explains.
bool Comparison::reportWaits() {
  std::vector<Wait> waits = runs.findWaits();
  if (waits.empty())
    return false;
  std::set<int> roots = findRoots(waits);
  auto isRoot = [&](int rank) { return roots.contains(rank); };
  auto first = std::ranges::find_if(waits, [&](const Wait &wait) {
    return std::ranges::any_of(wait.blamed(), isRoot);
  });
  if (first == waits.end())
    first = waits.begin();
  // Parts of it may have reached some ranks, which wait for the next one.
  for (auto wait = first; wait != waits.end(); ++wait)
    if (wait->key.line == first->key.line &&
        wait->key.position < first->key.position &&
        std::ranges::any_of(wait->blamed(), isRoot))
      first = wait;
  const FlightKey key = first->key;
  std::set<int> here, behind;
  for (const Wait &wait : waits)
    if (wait.key == key) {
      here.insert(wait.rank);
      std::ranges::copy_if(wait.blamed(), std::inserter(behind, behind.end()),
                           isRoot);
    }
  result.collective = label(*first->flight);
  result.behind.assign(behind.begin(), behind.end());
  if (behind.empty())
    add("all of its ranks are in " + describe(key, *first->flight) +
        ", and nothing says who keeps it from ending");
  else
    add(listRanks(behind) + (behind.size() == 1 ? " is" : " are") +
        " behind, at " + describe(key, *first->flight));
  for (int rank : behind)
    printBehind(rank, key);
  // Whoever is behind may wait, too.
  std::set<int> others;
  std::ranges::set_difference(here, behind,
                              std::inserter(others, others.end()));
  if (!others.empty())
    here = others;
  auto waited = [&](const Wait &wait) {
    return seconds(runs.moment() - wait.since);
  };
  add("  " + listRanks(here) + (here.size() == 1 ? " waits" : " wait") +
      " for it, rank " + std::to_string(first->rank) + " for " +
      waited(*first) + " when the first record was written");
  size_t shown = 0;
  for (const Wait &wait : waits)
    if (wait.key != key && ++shown <= kMostShown)
      add("  rank " + std::to_string(wait.rank) + " waits for " +
          describe(wait.key, *wait.flight) + ", for " + waited(wait));
  return true;
}

/// Whether ranks started different things in one place.
bool Comparison::reportMismatch() {
  using Sort = std::tuple<FlightKind, std::string, uint64_t, uint64_t,
                          std::string, int64_t>;
  auto sortOf = [](const Collective &flight) {
    return Sort{flight.kind, flight.bucket,        flight.bytes,
                flight.step, flight.place.program, flight.place.instruction};
  };
  std::map<FlightKey, std::map<Sort, std::vector<int>>> all;
  for (const auto &[rank, known] : runs.ranks())
    for (const auto &[key, flight] : known.flights)
      // All that exchanges and connections have is their name.
      if (runs.lineOf(key).isGroup)
        all[key][sortOf(*flight)].push_back(rank);
  std::optional<size_t> line;
  for (const auto &[key, sorts] : all) {
    // What stands behind the first follows from it.
    if (sorts.size() == 1 || line == key.line)
      continue;
    line = key.line;
    add("ranks started different collectives in one place:");
    for (const auto &[sort, which] : sorts)
      add("  " + listRanks(which) + ": " +
          describe(key, *runs.ranks().at(which.front()).flights.at(key)));
  }
  return line.has_value();
}

void Comparison::printHead() {
  add("run " + records.front().run + ": records of " +
      std::to_string(records.size()) + " of " + std::to_string(runs.world()) +
      " ranks (" + records.front().backend + ")");
  if (!runs.missing().empty())
    add(listRanks(runs.missing()) + " left no record");
  if (!outdated.empty())
    add("of " + listRanks(outdated) +
        " there is only what SIGUSR1 asked for before the run failed, which is "
        "not looked at");
  std::map<std::string, std::vector<int>> causes;
  for (const auto &[rank, known] : runs.ranks())
    causes[known.record->cause.substr(0, kMostCause)].push_back(rank);
  size_t shown = 0;
  for (const auto &[cause, which] : causes)
    if (++shown <= kMostShown)
      add("written by " + listRanks(which) + ": " + cause);
  add("");
}

void Comparison::printPlaces() {
  std::vector<int> shown;
  for (const auto &[rank, known] : runs.ranks())
    if (shown.size() < kMostShown || std::ranges::count(result.behind, rank))
      shown.push_back(rank);
  add("");
  add("where ranks were" +
      (shown.size() < records.size()
           ? " (" + std::to_string(shown.size()) + " of them)"
           : std::string()) +
      ":");
  TextTable table;
  table.add({"rank", "host", "pid", "collectives", "place"});
  for (int rank : shown) {
    const FlightRecord &record = *runs.ranks().at(rank).record;
    table.add({std::to_string(rank), record.host,
               std::to_string(record.process), std::to_string(record.recorded),
               placeOf(record)});
  }
  result.text += table.print();
}

FlightComparison Comparison::run() {
  printHead();
  bool isMismatch = reportMismatch();
  // Where ranks do different things, all that follows does, too.
  bool isLate = !isMismatch && reportWaits();
  if (!isMismatch && !isLate)
    add(runs.missing().empty() ? "nothing parts: no rank waits for another"
                               : "nothing parts among the ranks that left a "
                                 "record: none waits for another");
  result.isParted = isMismatch || isLate || !runs.missing().empty();
  printPlaces();
  return std::move(result);
}

FlightComparison fsdp::compareFlights(std::vector<FlightRecord> records) {
  return Comparison(std::move(records)).run();
}
