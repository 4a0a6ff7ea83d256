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
  std::visit(
      Overloaded{
          [&](const std::vector<GatherMember> &) { copyAll(transfer); },
          [&](const std::vector<ReduceMember> &) { scatterAll(transfer); },
          [&](const std::vector<AllReduceMember> &) { reduceAll(transfer); },
          [&](const std::vector<RotateMember> &) { rotateAll(transfer); }},
      transfer.parts.front().members);
  EventHandle done = takeEvent();
  streams->record(done, stream);
  transfer.done = done;
}

/// A rank's members, of the collective that all ranks started.
template <typename Member>
static const std::vector<Member> &all(const KeptMembers &members) {
  return std::get<std::vector<Member>>(members);
}

void DeviceCopiesGroup::copyAll(const Shared &transfer) {
  for (const Part &to : transfer.parts)
    for (size_t i = 0; i < all<GatherMember>(to.members).size(); ++i) {
      char *full = static_cast<char *>(all<GatherMember>(to.members)[i].full);
      for (const Part &from : transfer.parts) {
        const GatherMember &member = all<GatherMember>(from.members)[i];
        if (full != member.shard && member.shardBytes != 0)
          streams->copy(full, member.shard, member.shardBytes, stream);
        full += member.shardBytes;
      }
    }
}

void DeviceCopiesGroup::rotateAll(const Shared &transfer) {
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const auto &mine = all<RotateMember>(transfer.parts[rank].members);
    const auto &next =
        all<RotateMember>(transfer.parts[(rank + 1) % ranks.size()].members);
    for (size_t i = 0; i < mine.size(); ++i)
      if (mine[i].bytes != 0)
        streams->copy(next[i].to, mine[i].from, mine[i].bytes, stream);
  }
}

void DeviceCopiesGroup::scatterAll(const Shared &transfer) {
  std::vector<const void *> sources(ranks.size());
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const auto &mine = all<ReduceMember>(transfer.parts[rank].members);
    for (size_t i = 0; i < mine.size(); ++i) {
      const ReduceMember &to = mine[i];
      if (to.shardElements == 0)
        continue;
      size_t offset = rank * to.shardElements * dtypeBytes(to.dtype);
      for (size_t from = 0; from < ranks.size(); ++from)
        sources[from] =
            static_cast<const char *>(
                all<ReduceMember>(transfer.parts[from].members)[i].full) +
            offset;
      void *output = to.shard;
      reduce(sources, {&output, 1}, to.shardElements, to.dtype,
             transfer.combination, stream);
    }
  }
}

void DeviceCopiesGroup::reduceAll(const Shared &transfer) {
  const auto &firsts = all<AllReduceMember>(transfer.parts[0].members);
  for (size_t i = 0; i < firsts.size(); ++i) {
    const AllReduceMember &first = firsts[i];
    if (first.elements == 0)
      continue;
    std::vector<void *> outputs;
    for (const Part &part : transfer.parts)
      outputs.push_back(all<AllReduceMember>(part.members)[i].data);
    std::vector<const void *> sources(outputs.begin(), outputs.end());
    reduce(sources, outputs, first.elements, first.dtype, transfer.combination,
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
                         const KeptMembers &members,
                         const Combination &combination,
                         const TransferLabel &label) const {
  for (size_t other = 0; other < transfer.parts.size(); ++other) {
    const DeviceCopiesGroup::Part &theirs = transfer.parts[other];
    if (!theirs.ready)
      continue;
    if (theirs.members.index() == members.index() &&
        transfer.combination == combination &&
        shapeOf(theirs.members) == shapeOf(members))
      return;
    throw Error(ErrorId::CollectiveMismatch,
                describe(globalRank, label) + ": expected what rank " +
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
      transfer.combination = started.combination;
      transfer.parts.resize(group->ranks.size());
    }
    try {
      KeptMembers members = keep(started.members);
      check(transfer, members, started.combination, started.label);
      EventHandle ready = group->takeEvent();
      streams->record(ready, streams->compute());
      transfer.parts[place] = {std::move(members), ready};
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
