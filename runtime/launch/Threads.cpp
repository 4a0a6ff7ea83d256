//===- Threads.cpp - How many threads a rank has, and on which cores ------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/launch/Threads.h"

#include "runtime/log/Log.h"
#include "support/Error.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <system_error>
#include <thread>
#include <utility>

#include <unistd.h>

using namespace fsdp;

/// The first number of a file of the kernel's, such as "0,64" or "0-1".
static int readNumber(const std::string &path, int otherwise) {
  std::ifstream stream(path);
  int number = 0;
  return stream >> number ? number : otherwise;
}

/// Of this machine. Read once: rank threads all ask for the same.
static Processor describeProcessor(int number) {
  static std::mutex mutex;
  static std::map<int, Processor> known;
  std::lock_guard lock(mutex);
  auto [found, isNew] = known.try_emplace(number);
  if (isNew) {
    std::string folder =
        "/sys/devices/system/cpu/cpu" + std::to_string(number) + "/topology/";
    // The first of a core's processors stands for the core.
    found->second = {number, readNumber(folder + "physical_package_id", 0),
                     readNumber(folder + "thread_siblings_list", number)};
  }
  return found->second;
}

static std::vector<int> allowedProcessors() {
  std::vector<int> numbers;
  cpu_set_t set;
  if (sched_getaffinity(/*pid=*/0, sizeof(set), &set) == 0) {
    for (int i = 0; i < CPU_SETSIZE; ++i)
      if (CPU_ISSET(i, &set))
        numbers.push_back(i);
  } else {
    int count = static_cast<int>(std::thread::hardware_concurrency());
    for (int i = 0; i < std::max(1, count); ++i)
      numbers.push_back(i);
  }
  return numbers;
}

RankRoom fsdp::findRoom(int asked) {
  RankRoom room;
  // Of one boot: containers of a machine may well have names of their own.
  std::ifstream("/proc/sys/kernel/random/boot_id") >> room.host;
  char name[256] = {};
  gethostname(name, sizeof(name) - 1);
  if (room.host.empty())
    room.host = name;
  for (int number : allowedProcessors())
    room.processors.push_back(describeProcessor(number));
  const char *text = std::getenv("OMP_NUM_THREADS");
  room.asked = asked > 0 ? asked : std::max(0, text ? std::atoi(text) : 0);
  return room;
}

namespace {

/// What one thread gets: processors of one core with Pin::cores, else one
/// processor.
using Unit = std::pair<int, int>;

Unit unitOf(const Processor &processor, Pin pin) {
  // In the order of packages, so that a rank's lie close together.
  return {processor.package,
          pin == Pin::cores ? processor.core : processor.number};
}

std::set<Unit> unitsOf(const RankRoom &room, Pin pin) {
  std::set<Unit> units;
  for (const Processor &processor : room.processors)
    units.insert(unitOf(processor, pin));
  return units;
}

bool shareProcessors(const RankRoom &a, const RankRoom &b) {
  return a.host == b.host &&
         std::ranges::any_of(a.processors, [&](const Processor &mine) {
           return std::ranges::any_of(b.processors, [&](const Processor &its) {
             return mine.number == its.number;
           });
         });
}

std::string plural(size_t count, const char *noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

/// What becomes of ranks that have the same room, which is what most have.
struct Sharing {
  std::vector<size_t> ranks; ///< that share processors with this one
  std::set<Unit> units;      ///< of all of them
};

class Assignment {
public:
  Assignment(std::span<const RankRoom> ranks, Pin pin)
      : ranks(ranks), pin(pin) {
    for (const RankRoom &room : ranks)
      sharings.push_back(&find(room));
  }

  const Sharing &sharing(size_t rank) const { return *sharings[rank]; }
  std::vector<RankThreads> run() const;

private:
  const Sharing &find(const RankRoom &room);
  [[noreturn]] void refuse(size_t rank,
                           std::span<const RankThreads> result) const;

  std::span<const RankRoom> ranks;
  const Pin pin;
  std::map<std::pair<std::string, std::set<Unit>>, Sharing> known;
  std::vector<const Sharing *> sharings;
};

} // namespace

/// Ranks of the same room share with the same ones: a run has few rooms.
const Sharing &Assignment::find(const RankRoom &room) {
  auto [found, isNew] =
      known.try_emplace({room.host, unitsOf(room, Pin::threads)});
  Sharing &sharing = found->second;
  if (isNew)
    for (size_t other = 0; other < ranks.size(); ++other)
      if (shareProcessors(room, ranks[other])) {
        sharing.ranks.push_back(other);
        sharing.units.merge(unitsOf(ranks[other], pin));
      }
  return sharing;
}

void Assignment::refuse(size_t rank,
                        std::span<const RankThreads> result) const {
  const Sharing &shared = sharing(rank);
  size_t wanted = 0;
  for (size_t other : shared.ranks)
    wanted += static_cast<size_t>(result[other].count);
  const char *noun = pin == Pin::cores ? "core" : "processor";
  throw Error(ErrorId::BadUsage,
              std::string("--pin=") +
                  (pin == Pin::cores ? "cores" : "threads") + ": expected a " +
                  noun + " for each thread, that is " + plural(wanted, noun) +
                  " for the threads of " + plural(shared.ranks.size(), "rank") +
                  " that share a machine, found " +
                  plural(shared.units.size(), noun) + "; use --threads=" +
                  std::to_string(std::max<size_t>(1, shared.units.size() /
                                                         shared.ranks.size())) +
                  ", fewer ranks a machine, or no --pin");
}

std::vector<RankThreads> Assignment::run() const {
  std::vector<RankThreads> result(ranks.size());
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    size_t own = unitsOf(ranks[rank], pin).size();
    size_t share = std::max<size_t>(1, own / sharing(rank).ranks.size());
    result[rank].count =
        ranks[rank].asked > 0 ? ranks[rank].asked : static_cast<int>(share);
  }
  if (pin == Pin::none)
    return result;
  std::map<std::string, std::set<Unit>> taken; // by host
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    std::set<Unit> &gone = taken[ranks[rank].host], mine;
    for (const Unit &unit : unitsOf(ranks[rank], pin))
      if (mine.size() < static_cast<size_t>(result[rank].count) &&
          !gone.contains(unit))
        mine.insert(unit);
    if (mine.size() < static_cast<size_t>(result[rank].count))
      refuse(rank, result);
    gone.insert(mine.begin(), mine.end());
    for (const Processor &processor : ranks[rank].processors)
      if (mine.contains(unitOf(processor, pin)))
        result[rank].processors.push_back(processor.number);
  }
  return result;
}

std::vector<RankThreads> fsdp::assignThreads(std::span<const RankRoom> ranks,
                                             Pin pin) {
  return Assignment(ranks, pin).run();
}

std::optional<std::string>
fsdp::describeOversubscription(std::span<const RankRoom> ranks,
                               std::span<const RankThreads> threads, int rank) {
  Assignment assignment(ranks, Pin::threads);
  const Sharing &shared = assignment.sharing(static_cast<size_t>(rank));
  size_t total = 0;
  for (size_t other : shared.ranks)
    total += static_cast<size_t>(threads[other].count);
  size_t most = shared.units.size();
  // One thread a rank is the least there can be.
  if (shared.ranks.front() != static_cast<size_t>(rank) || total <= most ||
      total == shared.ranks.size())
    return std::nullopt;
  size_t fair = std::max<size_t>(1, most / shared.ranks.size());
  return plural(shared.ranks.size(), "rank") + " with " +
         plural(total, "thread") + " share " + plural(most, "processor") +
         " and will wait for each other; use --threads=" +
         std::to_string(fair) + " or fewer, or leave OMP_NUM_THREADS unset";
}

std::string fsdp::printRanges(std::span<const Processor> processors) {
  std::string text;
  for (size_t i = 0; i < processors.size();) {
    size_t end = i + 1;
    while (end < processors.size() &&
           processors[end].number == processors[end - 1].number + 1)
      ++end;
    text += (text.empty() ? "" : ",") + std::to_string(processors[i].number) +
            "-" + std::to_string(processors[end - 1].number);
    i = end;
  }
  return text;
}

std::vector<int> fsdp::parseRanges(const std::string &text) {
  std::vector<int> numbers;
  std::istringstream stream(text);
  int first = 0, last = 0;
  char dash = 0, comma = 0;
  while (stream >> first >> dash >> last) {
    for (int number = first; number <= last; ++number)
      numbers.push_back(number);
    stream >> comma;
  }
  return numbers;
}

RankThreads fsdp::agreeOnThreads(Fabric &fabric, int asked, Pin pin,
                                 bool isAlone) {
  RankRoom own = findRoom(asked);
  std::vector<RankRoom> rooms;
  int place = 0; // of this rank among those of its machine
  if (isAlone) {
    rooms.push_back(own);
  } else {
    nlohmann::json text{{"host", own.host},
                        {"asked", own.asked},
                        {"processors", printRanges(own.processors)}};
    std::vector<std::string> all = fabric.exchange("threads", text.dump());
    for (size_t rank = 0; rank < all.size(); ++rank) {
      nlohmann::json json = nlohmann::json::parse(all[rank]);
      if (json["host"] != own.host)
        continue;
      if (rank == static_cast<size_t>(fabric.rank()))
        place = static_cast<int>(rooms.size());
      RankRoom &room =
          rooms.emplace_back(RankRoom{own.host, {}, json["asked"].get<int>()});
      for (int number : parseRanges(json["processors"]))
        room.processors.push_back(describeProcessor(number));
    }
  }
  std::vector<RankThreads> threads = assignThreads(rooms, pin);
  if (auto warning = describeOversubscription(rooms, threads, place))
    log(LogLevel::warning, *warning);
  return threads[static_cast<size_t>(place)];
}

PinnedThread::PinnedThread(std::span<const int> processors) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int number : processors)
    CPU_SET(number, &set);
  if (sched_getaffinity(/*pid=*/0, sizeof(before), &before) != 0 ||
      sched_setaffinity(/*pid=*/0, sizeof(set), &set) != 0)
    throw Error(ErrorId::BadUsage,
                "--pin: expected that threads may be bound to processors, "
                "found: " +
                    std::error_code(errno, std::generic_category()).message() +
                    "; leave --pin out");
}

PinnedThread::~PinnedThread() {
  sched_setaffinity(/*pid=*/0, sizeof(before), &before);
}
