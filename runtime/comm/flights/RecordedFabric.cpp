//===- RecordedFabric.cpp - Transfers that are written down ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/comm/flights/RecordedFabric.h"

#include "runtime/comm/Forwarding.h"
#include "runtime/device/Streams.h"

#include <algorithm>
#include <utility>

using namespace fsdp;

namespace {

class RecordedCommunicator final : public ForwardingCommunicator {
public:
  RecordedCommunicator(std::unique_ptr<Communicator> inner, FlightRing &ring,
                       FlightGroup &group, std::shared_ptr<Streams> streams)
      : ForwardingCommunicator(std::move(inner)), ring(ring), group(group),
        streams(std::move(streams)) {
    open.reserve(64);
  }

  Ticket start(const Transfer &transfer) override;
  void wait(Ticket ticket) override;
  void abandon() override;
  uint64_t keepCaptured() override;
  void launchCaptured(uint64_t graph, uint64_t step) override;

private:
  struct Open {
    Ticket ticket;
    uint64_t number;
  };

  FlightEntry describe(const Transfer &transfer) const;

  FlightRing &ring;
  FlightGroup &group;
  const std::shared_ptr<Streams> streams; ///< null: nothing is captured
  std::vector<Open> open;                 ///< started and not waited for
  std::vector<FlightEntry> captured;      ///< since the last graph
  std::vector<std::vector<FlightEntry>> graphs;
};

} // namespace

FlightEntry RecordedCommunicator::describe(const Transfer &transfer) const {
  const TransferLabel &label = transfer.label;
  FlightEntry flight;
  flight.group = group.index;
  flight.kind = toFlight(label.kind);
  flight.step = label.step;
  flight.program = label.program;
  flight.instruction = label.instruction;
  flight.setBucket(label.bucket);
  flight.bytes = getTraffic(transfer, static_cast<uint64_t>(size()));
  return flight;
}

// In front of the start, which may be what never returns.
Communicator::Ticket RecordedCommunicator::start(const Transfer &transfer) {
  FlightEntry flight = describe(transfer);
  if (streams && streams->isCapturing(streams->compute())) {
    captured.push_back(flight);
    return ForwardingCommunicator::start(transfer);
  }
  flight.position = group.takePositions();
  flight.issued = FlightRing::now();
  uint64_t number = ring.add(flight);
  Ticket ticket = ForwardingCommunicator::start(transfer);
  open.push_back({ticket, number});
  return ticket;
}

void RecordedCommunicator::wait(Ticket ticket) {
  auto found = std::ranges::find(open, ticket, &Open::ticket);
  if (found == open.end())
    return ForwardingCommunicator::wait(ticket);
  uint64_t number = found->number;
  *found = open.back();
  open.pop_back();
  if (group.reportsTurns())
    return ForwardingCommunicator::wait(ticket);
  ring.setWaited(number, FlightRing::now());
  ForwardingCommunicator::wait(ticket);
  ring.setCompleted(number, FlightRing::now());
}

void RecordedCommunicator::abandon() {
  captured.clear();
  ForwardingCommunicator::abandon();
}

uint64_t RecordedCommunicator::keepCaptured() {
  uint64_t graph = ForwardingCommunicator::keepCaptured();
  graphs.resize(std::max<size_t>(graphs.size(), graph + 1));
  graphs[graph] = std::exchange(captured, {});
  return graph;
}

void RecordedCommunicator::launchCaptured(uint64_t graph, uint64_t step) {
  if (graph < graphs.size()) {
    int64_t now = FlightRing::now();
    for (FlightEntry flight : graphs[graph]) {
      flight.step = step;
      flight.position = group.takePositions();
      flight.issued = now;
      ring.add(flight);
    }
  }
  ForwardingCommunicator::launchCaptured(graph, step);
}

std::unique_ptr<Communicator> fsdp::makeRecorded(
    FlightRing &ring, GroupRanks group, std::shared_ptr<Streams> streams,
    const std::function<std::unique_ptr<Communicator>(const GroupRanks &)>
        &make) {
  FlightGroup &flights = ring.addGroup(group.name, group.ranks);
  group.flights = &flights;
  FlightEntry connect;
  connect.kind = FlightKind::connect;
  connect.group = flights.index;
  connect.position = flights.ordinal;
  connect.setBucket(group.name);
  connect.issued = connect.waited = FlightRing::now();
  uint64_t number = ring.add(connect);
  std::unique_ptr<Communicator> made = make(group);
  ring.setCompleted(number, FlightRing::now());
  return std::make_unique<RecordedCommunicator>(std::move(made), ring, flights,
                                                std::move(streams));
}

std::unique_ptr<Communicator>
RecordedFabric::createCommunicator(const GroupRanks &group) {
  return makeRecorded(ring, group, inner->streams(),
                      [&](const GroupRanks &named) {
                        return inner->createCommunicator(named);
                      });
}

std::unique_ptr<Communicator>
RecordedFabric::createHostCommunicator(const GroupRanks &group) {
  return makeRecorded(ring, group, nullptr, [&](const GroupRanks &named) {
    return inner->createHostCommunicator(named);
  });
}

std::vector<std::string> Fabric::exchange(const std::string &key,
                                          const std::string &value) {
  FlightRing *ring = flights();
  if (!ring)
    return ranks->exchange(key, value);
  FlightEntry flight;
  flight.kind = FlightKind::exchange;
  flight.bytes = value.size();
  flight.setBucket(key);
  flight.issued = flight.waited = FlightRing::now();
  uint64_t number = ring->add(flight);
  std::vector<std::string> values = ranks->exchange(key, value);
  ring->setCompleted(number, FlightRing::now());
  return values;
}
