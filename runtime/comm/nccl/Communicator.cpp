//===- Communicator.cpp - Transfers by NCCL -------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/comm/nccl/Communicator.h"
#include "runtime/comm/FlightRing.h"
#include "runtime/comm/Label.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <thread>

using namespace fsdp;
using std::chrono::milliseconds;

/// With less of it left, a call of NCCL's may have failed for want of memory.
static constexpr size_t kLittleMemory = size_t(256) << 20;

//===----------------------------------------------------------------------===//
// Connecting
//===----------------------------------------------------------------------===//

NcclCommunicator::NcclCommunicator(std::shared_ptr<NcclRank> rank,
                                   const GroupRanks &group,
                                   const std::string &key)
    : shared(std::move(rank)), nccl(shared->library()),
      streams(shared->streams()), name(group.name), key(key),
      ranks(group.ranks),
      place(static_cast<int>(std::ranges::find(ranks, shared->peers().rank()) -
                             ranks.begin())),
      flightGroup(group.flights) {
  if (flightGroup)
    flightGroup->reportTurns();
  // Transfers go first where they compete with kernels: those wait for them.
  // Sums over replicas do not: nothing waits for them before the optimizer.
  stream = streams.createStream(group.stream == plan::Stream::replicate
                                    ? StreamPriority::normal
                                    : StreamPriority::high,
                                name);
  try {
    captured.emplace(streams, stream);
    shared->add(this);
    connect();
  } catch (...) {
    abort();
    release();
    throw;
  }
}

void NcclCommunicator::connect() {
  std::string what = "connecting group '" + name + "'";
  int self = shared->peers().rank();
  Describe describeSelf = [&] {
    return "rank " + std::to_string(self) + ": " + what;
  };
  streams.use();
  nccl::UniqueId id{};
  std::string text;
  if (place == 0) {
    nccl::Result result = nccl.GetUniqueId(&id);
    if (result != nccl::Result::success)
      throw shared->fail(ErrorId::NcclFailed, describeSelf(),
                         "ncclGetUniqueId failed: " +
                             nccl.describe(result, nullptr));
    text.assign(id.internal, sizeof(id.internal));
  }
  // Whoever is missing is found out here, where it has a name.
  text = shared->peers().gather(key + "come/", text, ranks,
                                ErrorId::DeadlinePassed, what)[0];
  if (text.size() != sizeof(id.internal))
    throw std::logic_error("NCCL's unique id came in another size");
  std::memcpy(id.internal, text.data(), text.size());

  nccl::Config config;
  config.blocking = shared->isBlocking() ? 1 : 0;
  config.splitShare = 0;
  Unpinned unpinned(shared->allProcessors());
  measure([&] {
    std::unique_lock lock(mutex);
    nccl::Result result =
        nccl.CommInitRankConfig(&comm, size(), id, place, &config);
    settle(lock, describeSelf, "ncclCommInitRankConfig", result);
  });
}

template <typename Body>
void NcclCommunicator::measure(Body body) {
  size_t before = streams.freeMemory();
  body();
  size_t after = streams.freeMemory();
  if (after < before)
    taken += before - after;
}

bool NcclCommunicator::registerMemory(void *base, size_t bytes) {
  Describe self = [&] {
    return "rank " + std::to_string(shared->peers().rank()) +
           ": registering memory with group '" + name + "'";
  };
  shared->check(self);
  std::unique_lock lock(mutex);
  nccl::Result result =
      comm ? nccl.CommWindowRegister(comm, base, bytes, &window,
                                     nccl::kWindowCollSymmetric)
           : nccl::Result::success;
  // From 2.28.3 on it says success while another thread of NCCL's works on it.
  settle(lock, self, "ncclCommWindowRegister", result, Settled::ask);
  // Where memory cannot be shared so, NCCL makes no window from 2.29 on, and
  // says success; before it makes one that is of no use.
  return window != nullptr;
}

//===----------------------------------------------------------------------===//
// Transfers
//===----------------------------------------------------------------------===//

void NcclCommunicator::rehearse(const Transfer &transfer) {
  if (!transfer.facts().reduces)
    return;
  for (const Member &member : transfer.members) {
    double post =
        toNcclReduction(member.dtype, transfer.combination, size()).post;
    if (post != 1 && member.elements)
      streams.divide(member.to, member.elements, member.dtype, post,
                     streams.compute());
  }
}

void NcclCommunicator::prepare(const Transfer &transfer) {
  Describe self = [&] {
    return describe(shared->peers().rank(), transfer.label);
  };
  present.clear();
  reductions.clear();
  for (size_t i = 0; i < transfer.members.size(); ++i) {
    const Member &member = transfer.members[i];
    if (transfer.facts().reduces) {
      NcclReduction reduction =
          toNcclReduction(member.dtype, transfer.combination, size());
      reduction.op = operation(reduction, self);
      reductions.push_back(reduction);
    }
    if (member.elements)
      present.push_back(i);
  }
  isNew = isFirst(transfer.label);
  // What goes as messages does so whatever their addresses.
  if (isNew && transfer.kind() != CollectiveKind::rotate &&
      transfer.kind() != CollectiveKind::all_to_all)
    for (size_t i : present)
      if (!isAligned(transfer.label, transfer.members[i]))
        break;
}

Communicator::Ticket NcclCommunicator::start(const Transfer &transfer) {
  refuseWiderSums(transfer);
  prepare(transfer);
  std::span<const Member> members = transfer.members;
  switch (transfer.kind()) {
  case CollectiveKind::all_gather:
    // NCCL itself takes all elements that it only moves for bytes.
    return enqueue(transfer.label, "ncclAllGather", present, [&](size_t i) {
      const Member &member = members[i];
      return nccl.AllGather(member.from, member.to, member.bytes(),
                            nccl::DataType::int8, comm, stream);
    });
  case CollectiveKind::reduce_scatter:
    return reduce(transfer, "ncclReduceScatter", nccl.ReduceScatter);
  case CollectiveKind::all_reduce:
    return reduce(transfer, "ncclAllReduce", nccl.AllReduce);
  case CollectiveKind::rotate:
    return rotate(transfer);
  case CollectiveKind::all_to_all:
    return exchange(transfer);
  }
  throw std::logic_error("a transfer of an unknown kind");
}

template <typename Function>
Communicator::Ticket NcclCommunicator::reduce(const Transfer &transfer,
                                              const char *name,
                                              Function function) {
  std::span<const Member> members = transfer.members;
  return enqueue(
      transfer.label, name, present,
      [&](size_t i) {
        const auto &element = reductions[i].element;
        return function(members[i].from, members[i].to,
                        members[i].elements * element.parts, element.type,
                        reductions[i].op, comm, stream);
      },
      [&](size_t i) {
        if (reductions[i].post != 1)
          streams.divide(members[i].to, members[i].elements, members[i].dtype,
                         reductions[i].post, stream);
      });
}

Communicator::Ticket NcclCommunicator::rotate(const Transfer &transfer) {
  // Each member is two calls. As one group: a send alone would wait for a
  // receiver that waits for its own send.
  std::vector<size_t> calls;
  for (size_t i : present)
    calls.insert(calls.end(), {2 * i, 2 * i + 1});
  int next = (place + 1) % size(), previous = (place + size() - 1) % size();
  return enqueue(transfer.label, "ncclSend", calls, [&](size_t i) {
    const Member &member = transfer.members[i / 2];
    return i % 2 == 0 ? nccl.Send(member.from, member.bytes(),
                                  nccl::DataType::int8, next, comm, stream)
                      : nccl.Recv(member.to, member.bytes(),
                                  nccl::DataType::int8, previous, comm, stream);
  });
}

Communicator::Ticket NcclCommunicator::exchange(const Transfer &transfer) {
  // Two calls for each peer and this rank itself, in one group as above.
  // NCCL's own ncclAlltoAll is no older than 2.28, and does this.
  std::vector<size_t> calls;
  size_t ranks = static_cast<size_t>(size());
  for (size_t i : present)
    for (size_t call = 0; call < 2 * ranks; ++call)
      calls.push_back(2 * ranks * i + call);
  return enqueue(transfer.label, "ncclSend", calls, [&](size_t call) {
    const Member &member = transfer.members[call / (2 * ranks)];
    size_t peer = call / 2 % ranks, offset = peer * member.bytes();
    auto rank = static_cast<int>(peer);
    return call % 2 == 0
               ? nccl.Send(static_cast<const char *>(member.from) + offset,
                           member.bytes(), nccl::DataType::int8, rank, comm,
                           stream)
               : nccl.Recv(static_cast<char *>(member.to) + offset,
                           member.bytes(), nccl::DataType::int8, rank, comm,
                           stream);
  });
}

Communicator::Ticket NcclCommunicator::enqueue(const TransferLabel &label,
                                               const char *function,
                                               std::span<const size_t> members,
                                               const Call &call,
                                               const Behind &behind) {
  Describe self = [&] { return describe(shared->peers().rank(), label); };
  shared->check(self);
  Flight flight;
  flight.label = label;
  flight.isCaptured = streams.isCapturing(streams.compute());
  {
    std::lock_guard lock(mutex);
    reap();
    flight.ready = takeEvent();
    flight.done = takeEvent();
  }
  streams.record(flight.ready, streams.compute());
  streams.wait(stream, flight.ready);
  if (!members.empty())
    shared->beforeCall(stream);
  if (flight.isCaptured) {
    std::lock_guard lock(mutex);
    captured->begin(label);
  }
  if (!members.empty()) {
    // All ranks cut alike. Of what one member exchanges earlier peers come
    // first, on whom the others wait: nobody waits in a ring.
    auto issueAll = [&] {
      for (size_t i = 0; i < members.size(); i += nccl::kMostGrouped)
        issue(self, function,
              members.subspan(i,
                              std::min(nccl::kMostGrouped, members.size() - i)),
              call);
    };
    if (isNew && !flight.isCaptured)
      measure(issueAll);
    else
      issueAll();
    if (behind)
      for (size_t member : members)
        behind(member);
    shared->afterCall(stream);
  }
  std::lock_guard lock(mutex);
  if (flight.isCaptured)
    captured->end();
  else
    flight.position = issued++;
  streams.record(flight.done, stream);
  flights.push_back(flight);
  return first + flights.size() - 1;
}

void NcclCommunicator::issue(const Describe &self, const char *function,
                             std::span<const size_t> members,
                             const Call &call) {
  // NCCL makes a thread for each call.
  Unpinned unpinned(shared->allProcessors());
  std::unique_lock lock(mutex);
  nccl::Result result = nccl::Result::success;
  auto went = [](nccl::Result result) {
    return result == nccl::Result::success ||
           result == nccl::Result::inProgress;
  };
  if (comm && members.size() == 1) {
    result = call(members[0]);
  } else if (comm) {
    result = nccl.GroupStart();
    if (went(result)) {
      for (size_t i = 0; i < members.size() && went(result); ++i)
        result = call(members[i]);
      // Also behind a call that failed: the thread leaves the group.
      nccl::Result end = nccl.GroupEnd();
      if (went(result)) {
        result = end;
        if (!went(end))
          function = "ncclGroupEnd";
      }
    } else {
      function = "ncclGroupStart";
    }
  }
  settle(lock, self, function, result);
}

/// NCCL's buffers come beside what the plan says: why a call may have failed.
static std::string describeWantOfMemory(Streams &streams) {
  try {
    if (size_t unused = streams.freeMemory(); unused < kLittleMemory)
      return "; only " + std::to_string(unused) +
             " bytes of the device's memory are unused, and NCCL needs some "
             "for itself: use more ranks, or a smaller batch";
  } catch (const Error &) {
    // The device has failed, which is not for want of memory.
  }
  return "";
}

void NcclCommunicator::settle(std::unique_lock<std::mutex> &lock,
                              const Describe &self, const char *call,
                              nccl::Result result, Settled settled) {
  if (settled == Settled::ask && result == nccl::Result::success)
    result = nccl::Result::inProgress;
  auto end = Clock::now() + shared->peers().deadline();
  for (int polls = 0; comm && result == nccl::Result::inProgress; ++polls) {
    // The first are over in microseconds; connecting takes its time.
    lock.unlock();
    if (polls < 1000)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    if (Clock::now() >= end)
      throw shared->fail(ErrorId::DeadlinePassed, self(),
                         "expected " + std::string(call) +
                             " to come through within " +
                             describe(shared->peers().deadline()) + " on " +
                             describeRanks(ranks) + ", but it did not");
    lock.lock();
    if (!comm)
      break;
    nccl::Result asked = nccl.CommGetAsyncError(comm, &result);
    if (asked != nccl::Result::success)
      result = asked;
  }
  if (result != nccl::Result::success && result != nccl::Result::inProgress) {
    std::string reason =
        std::string(call) + " failed: " + nccl.describe(result, comm);
    lock.unlock();
    if (result == nccl::Result::unhandledCudaError)
      reason += describeWantOfMemory(streams);
    throw shared->fail(ErrorId::NcclFailed, self(), reason);
  }
  if (comm)
    return;
  // Ended by another thread, which knows why.
  lock.unlock();
  shared->check(self);
  throw std::logic_error("a communicator was used after its end");
}

nccl::RedOp NcclCommunicator::operation(const NcclReduction &reduction,
                                        const Describe &self) {
  if (reduction.pre == 1)
    return reduction.op;
  std::unique_lock lock(mutex);
  auto [made, isNew] = operations.try_emplace(
      {reduction.element.type, reduction.pre}, nccl::RedOp::sum);
  if (isNew && comm) {
    auto scalar = encodeScalar(1 / reduction.pre, reduction.element.type);
    nccl::Result result = nccl.RedOpCreatePreMulSum(
        &made->second, scalar.data(), reduction.element.type,
        nccl::ScalarResidence::hostImmediate, comm);
    if (result != nccl::Result::success)
      operations.erase(made);
    settle(lock, self, "ncclRedOpCreatePreMulSum", result);
  }
  return made->second;
}

void NcclCommunicator::wait(Ticket ticket) {
  std::unique_lock lock(mutex);
  if (ticket < first || ticket - first >= flights.size() ||
      flights[ticket - first].isWaited)
    throw std::logic_error("no transfer with this ticket is in flight");
  TransferLabel label = flights[ticket - first].label;
  lock.unlock();
  shared->check([&] { return describe(shared->peers().rank(), label); });
  lock.lock();
  Flight &flight = flights[ticket - first];
  if (!flight.isComplete)
    streams.wait(streams.compute(), flight.done);
  flight.isWaited = true;
  // Nothing is known of the end of what is only captured.
  flight.isComplete |= flight.isCaptured;
  reap();
}

void NcclCommunicator::abandon() {
  shared->endCapture();
  std::lock_guard lock(mutex);
  for (Flight &flight : flights)
    if (flight.isCaptured)
      flight.isWaited = flight.isComplete = true;
  reap();
  captured->abandon();
}

uint64_t NcclCommunicator::keepCaptured() {
  shared->endCapture();
  std::lock_guard lock(mutex);
  return captured->keep();
}

void NcclCommunicator::launchCaptured(uint64_t graph, uint64_t step) {
  std::unique_lock lock(mutex);
  const std::vector<TransferLabel> &transfers = captured->transfers(graph);
  if (transfers.empty())
    return;
  TransferLabel label = transfers.front();
  label.step = step;
  lock.unlock();
  shared->check([&] { return describe(shared->peers().rank(), label); });
  lock.lock();
  captured->launch(graph, step, issued);
  issued += transfers.size();
}

/// NCCL moves 16 bytes at a time only if all addresses and sizes are multiples
/// of 16, else elements, which are bytes in an all-gather (common_kernel.h:
/// reduceCopy). Small messages go another way, which does not care.
bool NcclCommunicator::isAligned(const TransferLabel &label,
                                 const Member &member) {
  constexpr size_t kMatters = size_t(64) << 10;
  size_t bytes = member.bytes();
  bool aligned = bytes % 16 == 0;
  for (const void *pointer :
       {member.from, static_cast<const void *>(member.to)})
    aligned &= reinterpret_cast<uintptr_t>(pointer) % 16 == 0;
  if (aligned || bytes < kMatters)
    return true;
  shared->note(std::string(getName(label.kind)) + " of bucket '" +
               std::string(label.bucket) + "' is slow: a member of " +
               std::to_string(bytes) +
               " bytes a rank does not begin and end at multiples of 16 bytes; "
               "bucket_layout: flat aligns members where rows have padding");
  return false;
}
