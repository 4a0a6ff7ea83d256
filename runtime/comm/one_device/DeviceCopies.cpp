//===- DeviceCopies.cpp - Transfers within one device ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/comm/one_device/DeviceCopies.h"

#include "plan/DType.h"
#include "runtime/comm/Label.h"

#include <algorithm>
#include <stdexcept>

using namespace fsdp;

//===----------------------------------------------------------------------===//
// What the ranks share
//===----------------------------------------------------------------------===//

DeviceCopiesGroup::DeviceCopiesGroup(std::shared_ptr<SharedDevice> device,
                                     std::shared_ptr<Streams> streams,
                                     DeviceReduce reduce,
                                     const GroupRanks &ranks)
    : device(std::move(device)), streams(std::move(streams)),
      reduce(std::move(reduce)), ranks(ranks.ranks),
      stream(this->streams->createStream(StreamPriority::high, ranks.name)) {}

DeviceCopiesGroup::~DeviceCopiesGroup() {
  for (EventHandle event : events)
    streams->destroyEvent(event);
  streams->destroyStream(stream);
}

EventHandle DeviceCopiesGroup::takeEvent() {
  if (unused.empty()) {
    events.push_back(streams->createEvent());
    unused.push_back(events.back());
  }
  EventHandle event = unused.back();
  unused.pop_back();
  return event;
}

/// Whoever waited for an event waits for what it stood for then: it may be
/// recorded again.
void DeviceCopiesGroup::giveBack(Shared &transfer) {
  for (Part &part : transfer.parts)
    unused.push_back(part.ready);
  unused.push_back(transfer.done);
}

void DeviceCopiesGroup::issue(Shared &transfer) {
  for (const Part &part : transfer.parts)
    streams->wait(stream, part.ready);
  if (isReduction(transfer.kind))
    reduceAll(transfer);
  else
    copyAll(transfer);
  EventHandle done = takeEvent();
  streams->record(done, stream);
  transfer.done = done;
}

void DeviceCopiesGroup::copyAll(const Shared &transfer) {
  Whole whole = getFacts(transfer.kind).whole;
  bool gathers = isWholeGot(whole);
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    for (size_t i = 0; i < transfer.parts[rank].members.size(); ++i) {
      char *to = static_cast<char *>(transfer.parts[rank].members[i].to);
      // All ranks' parts, or, of a rotation, the previous rank's.
      size_t first = gathers ? 0 : rank + ranks.size() - 1;
      for (size_t from = first; from < (gathers ? ranks.size() : first + 1);
           ++from) {
        const Member &member = transfer.parts[from % ranks.size()].members[i];
        const char *part = static_cast<const char *>(member.from) +
                           (isWholeGiven(whole) ? rank * member.bytes() : 0);
        if (to != part && member.elements != 0)
          streams->copy(to, part, member.bytes(), stream);
        to += member.bytes();
      }
    }
}

void DeviceCopiesGroup::reduceAll(const Shared &transfer) {
  // Each rank gets a part of its own, or all of them the same.
  bool scatters = getFacts(transfer.kind).whole == Whole::given;
  for (size_t rank = 0; rank < (scatters ? ranks.size() : 1); ++rank)
    for (size_t i = 0; i < transfer.parts[rank].members.size(); ++i) {
      const Member &own = transfer.parts[rank].members[i];
      if (own.elements == 0)
        continue;
      std::vector<const void *> sources;
      std::vector<void *> outputs;
      for (const Part &part : transfer.parts) {
        const Member &member = part.members[i];
        sources.push_back(static_cast<const char *>(member.from) +
                          rank * own.bytes());
        if (!scatters || &part == &transfer.parts[rank])
          outputs.push_back(member.to);
      }
      reduce(sources, outputs, own.elements, own.dtype, transfer.combination,
             stream);
    }
}

//===----------------------------------------------------------------------===//
// One rank's view
//===----------------------------------------------------------------------===//

DeviceCopies::DeviceCopies(std::shared_ptr<DeviceCopiesGroup> group,
                           std::shared_ptr<Streams> streams, int rank)
    : group(std::move(group)), streams(std::move(streams)), globalRank(rank),
      place(static_cast<int>(std::ranges::find(this->group->ranks, rank) -
                             this->group->ranks.begin())) {}

DeviceCopies::~DeviceCopies() {
  if (inFlight.empty())
    return;
  group->device->fail(describe(globalRank, inFlight.begin()->second) +
                      ": ended before it was complete");
  // What was issued ends by itself; memory is given back behind it.
  auto lock = group->device->lock();
  for (const auto &[ticket, label] : inFlight)
    if (auto found = group->transfers.find(ticket);
        found != group->transfers.end() && !found->second.done)
      group->transfers.erase(found);
}

void DeviceCopies::check(const DeviceCopiesGroup::Shared &transfer,
                         const Transfer &started) const {
  for (size_t other = 0; other < transfer.parts.size(); ++other) {
    const DeviceCopiesGroup::Part &theirs = transfer.parts[other];
    if (!theirs.ready)
      continue;
    if (transfer.kind == started.kind() &&
        transfer.combination == started.combination &&
        haveSameShape(theirs.members, started.members))
      return;
    throw Error(ErrorId::CollectiveMismatch,
                describe(globalRank, started.label) + ": expected what rank " +
                    std::to_string(group->ranks[other]) +
                    " started, found members of other sizes or of another "
                    "kind; give all ranks the same artifact");
  }
}

Communicator::Ticket DeviceCopies::start(const Transfer &started) {
  checkReductions(started);
  refuseWiderSums(started);
  Ticket ticket = next++;
  std::string failure;
  {
    auto lock = group->device->lock();
    auto [found, isFirst] = group->transfers.try_emplace(ticket);
    DeviceCopiesGroup::Shared &transfer = found->second;
    if (isFirst) {
      transfer.kind = started.kind();
      transfer.combination = started.combination;
      transfer.parts.resize(group->ranks.size());
    }
    try {
      check(transfer, started);
      EventHandle ready = group->takeEvent();
      streams->record(ready, streams->compute());
      transfer.parts[place] = {keep(started.members), ready};
      inFlight[ticket] = started.label;
      if (++transfer.arrived == size()) {
        group->issue(transfer);
        group->device->notify();
      }
      return ticket;
    } catch (const Error &error) {
      failure = error.what();
      if (lock)
        lock.unlock();
      group->device->fail(failure);
      throw;
    }
  }
}

void DeviceCopies::wait(Ticket ticket) {
  auto mine = inFlight.find(ticket);
  if (mine == inFlight.end())
    throw std::logic_error("no transfer with this ticket is in flight");
  auto lock = group->device->lock();
  auto find = [&] { return group->transfers.find(ticket); };
  auto isIssued = [&] {
    auto found = find();
    return found != group->transfers.end() && found->second.done;
  };
  group->device->await(lock, describe(globalRank, mine->second), isIssued, [&] {
    std::vector<int> missing;
    if (auto found = find(); found != group->transfers.end())
      for (size_t i = 0; i < group->ranks.size(); ++i)
        if (!found->second.parts[i].ready)
          missing.push_back(group->ranks[i]);
    return "expected " + describeRanks(missing) + " to start it";
  });
  DeviceCopiesGroup::Shared &transfer = find()->second;
  streams->wait(streams->compute(), transfer.done);
  if (++transfer.waited == size()) {
    group->giveBack(transfer);
    group->transfers.erase(ticket);
  }
  inFlight.erase(mine);
}

void DeviceCopies::abandon() {
  // Ranks got different numbers of transfers started.
  inFlight.clear();
  next = 0;
  auto lock = group->device->lock();
  group->transfers.clear();
  group->unused = group->events;
}
