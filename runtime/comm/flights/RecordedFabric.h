//===- RecordedFabric.h - Transfers that are written down -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_COMM_FLIGHTS_RECORDEDFABRIC_H
#define FSDP_RUNTIME_COMM_FLIGHTS_RECORDEDFABRIC_H

#include "runtime/comm/Communicator.h"
#include "runtime/comm/FlightRing.h"

#include <memory>

namespace fsdp {

/// Makes a communicator of `group` and writes down what goes through it, and
/// the making itself, in `ring`, which outlives it. `make` gets the group with
/// its FlightGroup. `streams`: of transfers that may be captured, else null.
std::unique_ptr<Communicator> makeRecorded(
    FlightRing &ring, GroupRanks group, std::shared_ptr<Streams> streams,
    const std::function<std::unique_ptr<Communicator>(const GroupRanks &)>
        &make);

/// Another fabric, whose transfers and exchanges are written down.
class RecordedFabric final : public Fabric {
public:
  /// `ring` outlives it.
  RecordedFabric(std::unique_ptr<Fabric> inner, FlightRing &ring)
      : Fabric(inner->meeting()), inner(std::move(inner)), ring(ring) {}

  std::unique_ptr<Communicator>
  createCommunicator(const GroupRanks &group) override;
  std::unique_ptr<Communicator>
  createHostCommunicator(const GroupRanks &group) override;
  std::shared_ptr<Streams> streams() const override { return inner->streams(); }
  void check() override { inner->check(); }
  FlightRing *flights() const override { return &ring; }
  std::shared_ptr<void> allocateArena(size_t bytes) override {
    return inner->allocateArena(bytes);
  }
  void endTransfers(const std::string &reason) noexcept override {
    inner->endTransfers(reason);
  }

private:
  const std::unique_ptr<Fabric> inner;
  FlightRing &ring;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_FLIGHTS_RECORDEDFABRIC_H
