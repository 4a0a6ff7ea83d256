//===- DeviceFabric.h - Ranks that share a device ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_COMM_ONE_DEVICE_DEVICEFABRIC_H
#define FSDP_RUNTIME_COMM_ONE_DEVICE_DEVICEFABRIC_H

#include "runtime/comm/Communicator.h"
#include "runtime/comm/one_device/DeviceCopies.h"
#include "runtime/comm/one_device/SharedDevice.h"
#include "runtime/device/Streams.h"

#include <chrono>
#include <memory>

namespace fsdp {

/// Another fabric for all that the host exchanges, with transfers within the
/// one device that all ranks are on.
class DeviceFabric final : public Fabric {
public:
  /// Collective. `host` connects threads of this process, or is of a world of
  /// one, which may have a device itself, and outlives this.
  DeviceFabric(Fabric &host, std::shared_ptr<Streams> streams,
               DeviceReduce reduce, std::chrono::milliseconds deadline);
  /// Fails the peers that still wait for this rank.
  ~DeviceFabric() override;

  const std::shared_ptr<SharedDevice> &sharedDevice() const { return device; }

  std::unique_ptr<Communicator>
  createCommunicator(const GroupRanks &group) override;
  std::unique_ptr<Communicator>
  createHostCommunicator(const GroupRanks &group) override;
  std::shared_ptr<Streams> streams() const override { return own; }
  void check() override { host.check(); }
  FlightRing *flights() const override { return host.flights(); }
  void endTransfers(const std::string &reason) noexcept override;

private:
  std::unique_ptr<Communicator> makeCopies(const GroupRanks &group);

  Fabric &host;
  const std::shared_ptr<Streams> own;
  const DeviceReduce reduce;
  std::shared_ptr<SharedDevice> device;
  std::unique_ptr<Fabric> alone; ///< of a world of one, if `host` has a device
};

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_ONE_DEVICE_DEVICEFABRIC_H
