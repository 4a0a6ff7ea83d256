//===- DeviceFabric.cpp - Ranks that share a device -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/comm/one_device/DeviceFabric.h"

#include "runtime/comm/flights/RecordedFabric.h"
#include "runtime/comm/local/Local.h"

#include <numeric>

using namespace fsdp;

/// One for all ranks, or one's own where there is but one.
template <typename T, typename Make>
static std::shared_ptr<T> shareOne(Fabric &host, const GroupRanks &group,
                                   Make make) {
  if (group.ranks.size() == 1)
    return make();
  auto shared = std::static_pointer_cast<T>(host.meeting()->share(group, make));
  if (!shared)
    throw Error(ErrorId::RuntimeUnsupported,
                "the back end's ranks are processes and move the host's "
                "memory, and the artifact is for a GPU: use --backend=nccl, "
                "or --backend=local for all ranks on one GPU");
  return shared;
}

DeviceFabric::DeviceFabric(Fabric &host, std::shared_ptr<Streams> streams,
                           DeviceReduce reduce,
                           std::chrono::milliseconds deadline)
    : Fabric(host.meeting()), host(host), own(std::move(streams)),
      reduce(std::move(reduce)) {
  GroupRanks all{"device", std::vector<int>(host.worldSize())};
  std::iota(all.ranks.begin(), all.ranks.end(), 0);
  device = shareOne<SharedDevice>(host, all, [&] {
    return std::make_shared<SharedDevice>(host.worldSize(), deadline);
  });
  if (host.streams())
    alone = std::move(makeLocalFabrics(1, deadline).front());
}

std::unique_ptr<Communicator>
DeviceFabric::createHostCommunicator(const GroupRanks &group) {
  return (alone ? *alone : host).createHostCommunicator(group);
}

DeviceFabric::~DeviceFabric() {
  device->fail("rank " + std::to_string(rank()) + " has ended");
}

std::unique_ptr<Communicator>
DeviceFabric::createCommunicator(const GroupRanks &group) {
  auto make = [&](const GroupRanks &named) { return makeCopies(named); };
  FlightRing *ring = flights();
  return ring ? makeRecorded(*ring, group, own, make) : make(group);
}

std::unique_ptr<Communicator>
DeviceFabric::makeCopies(const GroupRanks &group) {
  auto shared = shareOne<DeviceCopiesGroup>(
      host, {group.name + " on a device", group.ranks}, [&] {
        return std::make_shared<DeviceCopiesGroup>(device, own, reduce, group);
      });
  return std::make_unique<DeviceCopies>(std::move(shared), own, rank());
}

void DeviceFabric::endTransfers(const std::string &reason) noexcept {
  host.endTransfers(reason);
  device->fail("rank " + std::to_string(rank()) + " failed: " + reason);
}
