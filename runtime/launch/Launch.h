//===- Launch.h - Run an artifact on all of its ranks -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_LAUNCH_LAUNCH_H
#define FSDP_RUNTIME_LAUNCH_LAUNCH_H

#include "runtime/exec/MatmulLibrary.h"
#include "runtime/session/Session.h"

#include <array>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fsdp {

class TerminationSignals;
class WorldPlans;

/// What the threads of each rank are kept on.
enum class Pin {
  none,    ///< they go where the system puts them
  threads, ///< as many processors, hardware threads of cores, as threads
  cores    ///< as many whole cores as threads
};
constexpr std::array<std::pair<std::string_view, Pin>, 3> namesOf(Pin) {
  return {
      {{"none", Pin::none}, {"cores", Pin::cores}, {"threads", Pin::threads}}};
}

// What a person may choose of the members below has a row in RunOptions.def.

struct LaunchOptions {
  /// The artifact of fsdp-opt.
  std::string artifact;
  /// Whether the artifact is known to be one's own, and may call kernels that
  /// rely on what is not checked (plan/Trust.h).
  bool isTrusted = false;
  /// Of an artifact with plans for several numbers of ranks, that of so many;
  /// by default of as many as a launcher started processes.
  std::optional<uint64_t> world;
  /// "local": all ranks are threads of this process; "gloo", "nccl": this
  /// process is one rank. Empty: if a launcher (torchrun, mpirun, srun) started
  /// this process gloo, or nccl for a GPU's artifact, else local.
  std::string backend;
  /// Where processes meet: env://, tcp://host:port or file:///path.
  std::string rendezvous = "env://";
  /// How long a rank waits for another one.
  std::chrono::milliseconds deadline = std::chrono::minutes(10);
  /// LibTorch's threads for each rank; 0: OMP_NUM_THREADS, else the machine's
  /// processors divided by its ranks.
  int threads = 0;
  /// No rank shares with another one what it is pinned to.
  Pin pin = Pin::none;
  /// In the whole process.
  MatmulLibrary matmul = MatmulLibrary::automatic;
  /// Of each rank; what the ranks' meeting decides (artifactFolder,
  /// isInProcess, device.streams, …) is filled in.
  SessionOptions session;
  /// Called on each rank when it has met the others, with its number, before
  /// its session is made: what can be refused early. May be empty.
  std::function<void(int)> check;
  /// Where ranks write their last transfers when the run fails
  /// (flights/FlightRecorder.h), in a folder of the run's own; "none" or
  /// empty: nowhere.
  std::string flightRecords = "flight-records";
  /// Whether transfers are not even recorded, to measure what that costs.
  bool isUnrecorded = false;
  /// Of a process that obeys them: while ranks start up they hear of signals.
  TerminationSignals *signals = nullptr;
};

/// The artifact. Throws fsdp::Error.
WorldPlans readPlans(const LaunchOptions &options);

/// Makes a session for each rank of this process and calls `body` with it, on a
/// thread of its own where there are several. Throws fsdp::Error, after it has
/// told the other ranks: of several ranks' errors the one that caused the
/// others.
void launch(const LaunchOptions &options,
            const std::function<void(Session &)> &body);

} // namespace fsdp

#endif // FSDP_RUNTIME_LAUNCH_LAUNCH_H
