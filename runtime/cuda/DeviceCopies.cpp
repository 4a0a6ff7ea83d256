//===- DeviceCopies.cpp - Transfers within one device ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/cuda/DeviceCopies.h"

#include "runtime/comm/Label.h"
#include "runtime/plan/DType.h"

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
void DeviceCopiesGroup::giveBack(Transfer &transfer) {
  for (Part &part : transfer.parts)
    unused.push_back(part.ready);
  unused.push_back(transfer.done);
}

void DeviceCopiesGroup::issue(Transfer &transfer) {
  for (const Part &part : transfer.parts)
    streams->wait(stream, part.ready);
  switch (transfer.kind) {
  case Kind::gather:
    copyAll(transfer);
    break;
  case Kind::scatter:
    scatterAll(transfer);
    break;
  case Kind::reduce:
    reduceAll(transfer);
    break;
  }
  EventHandle done = takeEvent();
  streams->record(done, stream);
  transfer.done = done;
}

void DeviceCopiesGroup::copyAll(const Transfer &transfer) {
  for (const Part &to : transfer.parts)
    for (size_t i = 0; i < to.gathers.size(); ++i) {
      char *full = static_cast<char *>(to.gathers[i].full);
      for (const Part &from : transfer.parts) {
        const GatherMember &member = from.gathers[i];
        if (full != member.shard && member.shardBytes != 0)
          streams->copy(full, member.shard, member.shardBytes, stream);
        full += member.shardBytes;
      }
    }
}

void DeviceCopiesGroup::scatterAll(const Transfer &transfer) {
  std::vector<const void *> sources(ranks.size());
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    for (size_t i = 0; i < transfer.parts[rank].scatters.size(); ++i) {
      const ReduceMember &to = transfer.parts[rank].scatters[i];
      if (to.shardElements == 0)
        continue;
      size_t offset = rank * to.shardElements * dtypeBytes(to.dtype);
      for (size_t from = 0; from < ranks.size(); ++from)
        sources[from] =
            static_cast<const char *>(transfer.parts[from].scatters[i].full) +
            offset;
      void *output = to.shard;
      reduce(sources, {&output, 1}, to.shardElements, to.dtype,
             transfer.combination, stream);
    }
}

void DeviceCopiesGroup::reduceAll(const Transfer &transfer) {
  for (size_t i = 0; i < transfer.parts[0].reduces.size(); ++i) {
    const AllReduceMember &first = transfer.parts[0].reduces[i];
    if (first.elements == 0)
      continue;
    std::vector<void *> all;
    for (const Part &part : transfer.parts)
      all.push_back(part.reduces[i].data);
    std::vector<const void *> sources(all.begin(), all.end());
    reduce(sources, all, first.elements, first.dtype, transfer.combination,
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

/// What the ranks must agree on.
static std::vector<std::pair<size_t, int>>
shapeOf(std::span<const GatherMember> gathers,
        std::span<const ReduceMember> scatters,
        std::span<const AllReduceMember> reduces) {
  std::vector<std::pair<size_t, int>> shape;
  for (const GatherMember &member : gathers)
    shape.emplace_back(member.shardBytes, 0);
  for (const ReduceMember &member : scatters)
    shape.emplace_back(member.shardElements, static_cast<int>(member.dtype));
  for (const AllReduceMember &member : reduces)
    shape.emplace_back(member.elements, static_cast<int>(member.dtype));
  return shape;
}

void DeviceCopies::check(const DeviceCopiesGroup::Transfer &transfer, Kind kind,
                         const Combination &combination,
                         const DeviceCopiesGroup::Part &part,
                         const TransferLabel &label) const {
  for (size_t other = 0; other < transfer.parts.size(); ++other) {
    const DeviceCopiesGroup::Part &theirs = transfer.parts[other];
    if (!theirs.ready)
      continue;
    auto mine = shapeOf(part.gathers, part.scatters, part.reduces);
    if (transfer.kind == kind && transfer.combination == combination &&
        shapeOf(theirs.gathers, theirs.scatters, theirs.reduces) == mine)
      return;
    throw Error(ErrorId::CollectiveMismatch,
                describe(globalRank, label) + ": expected what rank " +
                    std::to_string(group->ranks[other]) +
                    " started, found members of other sizes or of another "
                    "kind; give all ranks the same artifact");
  }
}

Communicator::Ticket DeviceCopies::start(Kind kind, Combination combination,
                                         DeviceCopiesGroup::Part part,
                                         const TransferLabel &label) {
  Ticket ticket = next++;
  std::string failure;
  {
    auto lock = group->device->lock();
    auto [found, isFirst] = group->transfers.try_emplace(ticket);
    DeviceCopiesGroup::Transfer &transfer = found->second;
    if (isFirst) {
      transfer.kind = kind;
      transfer.combination = combination;
      transfer.parts.resize(group->ranks.size());
    }
    try {
      check(transfer, kind, combination, part, label);
      part.ready = group->takeEvent();
      streams->record(part.ready, streams->compute());
      transfer.parts[place] = std::move(part);
      inFlight[ticket] = label;
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

Communicator::Ticket
DeviceCopies::startAllGather(std::span<const GatherMember> members,
                             const TransferLabel &label) {
  DeviceCopiesGroup::Part part;
  part.gathers.assign(members.begin(), members.end());
  return start(Kind::gather, plan::Reduction::sum, std::move(part), label);
}

Communicator::Ticket
DeviceCopies::startReduceScatter(std::span<const ReduceMember> members,
                                 Combination combination,
                                 const TransferLabel &label) {
  for (const ReduceMember &member : members)
    checkReduction(member.dtype, combination.reduction);
  DeviceCopiesGroup::Part part;
  part.scatters.assign(members.begin(), members.end());
  return start(Kind::scatter, combination, std::move(part), label);
}

Communicator::Ticket
DeviceCopies::startAllReduce(std::span<const AllReduceMember> members,
                             Combination combination,
                             const TransferLabel &label) {
  for (const AllReduceMember &member : members)
    checkReduction(member.dtype, combination.reduction);
  DeviceCopiesGroup::Part part;
  part.reduces.assign(members.begin(), members.end());
  return start(Kind::reduce, combination, std::move(part), label);
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
  DeviceCopiesGroup::Transfer &transfer = find()->second;
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
