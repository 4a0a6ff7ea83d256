//===- DeviceCopies.h - Transfers within one device -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Ranks that share a device: a gather is copies, a reduction a kernel. The last
// rank to start a transfer issues it, on a stream that the ranks' communicators
// have in common, behind what each rank had issued when it started it. A rank
// that waits for a transfer which others have not started blocks until they
// have, so that ranks may also come on threads of their own.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_COMM_ONE_DEVICE_DEVICECOPIES_H
#define FSDP_RUNTIME_COMM_ONE_DEVICE_DEVICECOPIES_H

#include "runtime/comm/Communicator.h"
#include "runtime/comm/one_device/SharedDevice.h"
#include "runtime/device/Streams.h"

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace fsdp {

/// Puts what `reduceRows` does on a stream.
using DeviceReduce = std::function<void(
    std::span<const void *const> sources, std::span<void *const> outputs,
    size_t elements, plan::DType dtype, const Combination &combination,
    StreamHandle stream)>;

/// What the ranks of one group and stream share.
class DeviceCopiesGroup {
public:
  /// `streams` are those of the rank that makes it.
  DeviceCopiesGroup(std::shared_ptr<SharedDevice> device,
                    std::shared_ptr<Streams> streams, DeviceReduce reduce,
                    const GroupRanks &ranks);
  ~DeviceCopiesGroup();
  DeviceCopiesGroup(const DeviceCopiesGroup &) = delete;
  DeviceCopiesGroup &operator=(const DeviceCopiesGroup &) = delete;

private:
  friend class DeviceCopies;
  /// One rank's part of a transfer.
  struct Part {
    Members members;
    EventHandle ready = nullptr; ///< null: the rank did not start it
  };
  struct Shared {
    CollectiveKind kind = CollectiveKind::all_gather;
    Combination combination{plan::Reduction::sum};
    std::vector<Part> parts; ///< by rank
    int arrived = 0, waited = 0;
    EventHandle done = nullptr; ///< null: not issued
  };

  // The caller holds the device's lock.
  EventHandle takeEvent();
  void giveBack(Shared &transfer);
  void issue(Shared &transfer);
  void copyAll(const Shared &transfer);
  void reduceAll(const Shared &transfer);

  const std::shared_ptr<SharedDevice> device;
  const std::shared_ptr<Streams> streams;
  const DeviceReduce reduce;
  const std::vector<int> ranks; ///< global
  const StreamHandle stream;
  std::map<Communicator::Ticket, Shared> transfers;
  std::vector<EventHandle> events; ///< all of them
  std::vector<EventHandle> unused;
};

/// One rank's view.
class DeviceCopies final : public Communicator {
public:
  /// `rank` is the global one.
  DeviceCopies(std::shared_ptr<DeviceCopiesGroup> group,
               std::shared_ptr<Streams> streams, int rank);
  ~DeviceCopies() override;

  int rank() const override { return place; }
  int size() const override { return static_cast<int>(group->ranks.size()); }

  Ticket start(const Transfer &transfer) override;
  void wait(Ticket ticket) override;
  void abandon() override;

private:
  void check(const DeviceCopiesGroup::Shared &transfer,
             const Transfer &started) const;

  const std::shared_ptr<DeviceCopiesGroup> group;
  const std::shared_ptr<Streams> streams;
  const int globalRank, place;
  Ticket next = 0;
  std::map<Ticket, TransferLabel> inFlight;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_ONE_DEVICE_DEVICECOPIES_H
