//===- FarDevice.h - A device that is the host in disguise ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// For tests of all that a GPU's runs do differently, except the GPU: memory
// that the host is told to keep away from, copies and transfers on streams,
// kernels that run when a stream comes to them, graphs, and one thread that
// issues all ranks' programs. Kernels are the host's, but for those of our own,
// which are loaded and launched as on GPUs (FakeDriver.h); what puts copies,
// inputs and numbers on streams is what does so on GPUs
// (runtime/device/Stream*.h).
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TEST_UNIT_RUNTIME_CUDA_FARDEVICE_H
#define FSDP_TEST_UNIT_RUNTIME_CUDA_FARDEVICE_H

#include "SimulatedStreams.h"
#include "plan/Reader.h"
#include "runtime/device/Copies.h"
#include "runtime/exec/Device.h"
#include "runtime/launch/Launch.h"
#include "runtime/profile/DeviceActivities.h"
#include "runtime/session/Session.h"

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace fsdp::test {

/// Of the GPU that the host plays: 9.0.
inline constexpr int kFarCapability = 90;
/// How long a rank waits for others.
inline constexpr std::chrono::seconds kFarPatience(30);

struct FarOptions {
  Lateness lateness;
  /// Programs are launched as graphs, as soon as they may be.
  bool graphs = false;
  PlantedFault fault;
  /// Whether waits are judged, which takes memory and time.
  bool judges = false;
  /// Made in place of StreamCopies, if there: others that are wrong.
  std::function<std::unique_ptr<Copies>(std::shared_ptr<Streams>)> makeCopies;
  /// Of all ranks; `launchFar` has its own if there is none.
  std::shared_ptr<DeviceActivities> activities;
};

/// What was seen of a run's order.
struct FarReport {
  std::string error; ///< the first one; empty: none
  std::vector<std::string> races;
  uint64_t compared = 0; ///< pairs of accesses
  uint64_t launches = 0; ///< of graphs
  uint64_t waits = 0;    ///< of streams for events
  uint64_t syncs = 0;    ///< of the host for events
  std::map<WaitNeed, std::map<std::string, uint64_t>> needs; ///< of waits
  std::optional<WaitNeed> planted; ///< of the one that went wrong
  uint64_t kernels = 0;            ///< that have temporaries
};

/// What `body` of all ranks needs to know of where it runs.
struct FarRank {
  Fabric *fabric;
  std::shared_ptr<SimulatedDevice> device;
};

/// One rank on `device`, which all ranks of `fabric` share, or which this
/// rank has alone where the fabric has streams (those of `device`).
std::unique_ptr<Device> makeFarDevice(Fabric &fabric,
                                      std::shared_ptr<SimulatedDevice> device,
                                      const FarOptions &options);

/// As `launch`, with ranks that share such a device. `change`, if given,
/// changes the plan, which is not verified again.
FarReport launchFar(const LaunchOptions &launch, FarOptions options,
                    const std::function<void(Session &)> &body,
                    const std::function<void(plan::PlanT &)> &change = nullptr);
/// Returns the first error, "" if there is none.
std::string launchFar(const LaunchOptions &options,
                      const std::function<void(Session &)> &body);

/// The same with a device for each rank, and transfers by the fake NCCL that
/// lies at `library`.
FarReport launchFarNccl(const LaunchOptions &launch, FarOptions options,
                        const char *library,
                        const std::function<void(Session &)> &body);

// For those that launch.

int worldSizeOf(const plan::PlanT &plan);
/// Runs `body` on a thread for each rank, whose fabric and device `connect`
/// gives on that thread. Returns the first error, "" if there is none; `fail`,
/// if given, is told of each.
std::string
runFarRanks(const LaunchOptions &launch, const PlanFile &plan,
            FarOptions options, const std::function<FarRank(int)> &connect,
            const std::function<void(Session &)> &body,
            const std::function<void(const std::string &)> &fail = nullptr);
/// Adds what was seen of `device`.
void addTo(FarReport &report, const SimulatedDevice &device);

} // namespace fsdp::test

#endif // FSDP_TEST_UNIT_RUNTIME_CUDA_FARDEVICE_H
