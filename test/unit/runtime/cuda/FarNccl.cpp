//===- FarNccl.cpp - Ranks with a device each, and NCCL -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "FarDevice.h"

#include "runtime/comm/local/Local.h"
#include "runtime/comm/nccl/Nccl.h"
#include "test/unit/runtime/comm/FakeNccl.h"
#include "test/unit/runtime/comm/ThreadPeers.h"

#include <atomic>
#include <stdexcept>

using namespace fsdp;
using namespace fsdp::test;

/// What a call reads and writes.
static std::vector<ByteUse> usesOf(const NcclCall &call,
                                   const SimulatedDevice &device) {
  std::vector<ByteUse> uses;
  auto use = [&](const void *begin, size_t rows, bool isWrite) {
    uses.push_back(
        {begin, rows * call.bytes(), isWrite, device.describe(begin)});
  };
  auto ranks = static_cast<size_t>(call.ranks);
  if (call.name != "ncclRecv")
    use(call.send, call.name == "ncclReduceScatter" ? ranks : 1, false);
  if (call.name != "ncclSend")
    use(call.receive, call.name == "ncclAllGather" ? ranks : 1, true);
  return uses;
}

FarReport
fsdp::test::launchFarNccl(const LaunchOptions &launch, FarOptions options,
                          const char *library,
                          const std::function<void(Session &)> &body) {
  struct Rank {
    std::shared_ptr<SimulatedDevice> device;
    std::unique_ptr<Fabric> fabric;
  };
  PlanFile plan = PlanFile::read(launch.artifact);
  const int world = worldSizeOf(plan.plan());
  std::vector<Rank> ranks(world);
  for (int rank = 0; rank < world; ++rank) {
    Lateness lateness = options.lateness;
    lateness.seed = lateness.seed * 1000 + rank;
    ranks[rank].device = std::make_shared<SimulatedDevice>(lateness);
  }
  // What lies on the host does not go through NCCL.
  auto forHost = makeLocalFabrics(world, kFarPatience);
  auto meeting = std::make_shared<ThreadMeeting>(world);
  auto isBroken = std::make_shared<std::atomic<bool>>(false);
  NcclScript &script = useFakeNccl(library);
  {
    std::lock_guard lock(script.mutex);
    script.ranksMeet = true;
    // A rank's streams are known to its device alone.
    auto find = [&ranks](StreamHandle stream) -> SimulatedDevice & {
      for (Rank &rank : ranks)
        if (rank.device->has(stream))
          return *rank.device;
      throw std::logic_error("a stream that nobody made");
    };
    script.put = [=](const NcclCall &call, NcclWork work) {
      SimulatedDevice &device = find(call.stream);
      std::function<bool()> isReady;
      if (work.isReady)
        isReady = [isBroken, asked = std::move(work.isReady)] {
          if (*isBroken)
            throw std::runtime_error("another rank failed");
          return asked();
        };
      device.put(call.stream, std::move(work.run), usesOf(call, device),
                 std::move(isReady));
    };
    script.isCapturing = [=](StreamHandle stream) {
      return find(stream).isCapturing(stream);
    };
  }
  FarReport report;
  report.error = runFarRanks(
      launch, plan, options,
      [&](int rank) {
        std::shared_ptr<SimulatedDevice> device = ranks[rank].device;
        // What the thread that watches transfers found to be over, it tells.
        device->joinThreads();
        device->nameHost("the host of rank " + std::to_string(rank));
        device->keepToThisThread();
        FabricOptions connected;
        connected.worldSize = world;
        connected.streams = std::make_shared<SimulatedStreams>(
            device, " of rank " + std::to_string(rank));
        connected.note = [](const std::string &) {};
        ranks[rank].fabric = makeNcclFabric(
            std::make_shared<ThreadPeers>(meeting, rank, kFarPatience,
                                          [device] { (void)device->goOn(); }),
            connected, std::move(forHost[rank]));
        return FarRank{ranks[rank].fabric.get(), device};
      },
      body, [=](const std::string &) { *isBroken = true; });
  for (Rank &rank : ranks)
    rank.fabric.reset();
  {
    std::lock_guard lock(script.mutex);
    script.put = nullptr;
    script.isCapturing = nullptr;
  }
  for (const Rank &rank : ranks)
    addTo(report, *rank.device);
  return report;
}
