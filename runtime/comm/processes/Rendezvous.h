//===- Rendezvous.h - How processes find each other -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_COMM_PROCESSES_RENDEZVOUS_H
#define FSDP_RUNTIME_COMM_PROCESSES_RENDEZVOUS_H

#include "runtime/comm/processes/Store.h"

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace fsdp {

/// What a launcher told this process through the environment.
struct LauncherInfo {
  int rank;
  int worldSize;
  int localRank = -1;   ///< among the ranks of this machine; -1: not told
  std::string launcher; ///< "mpirun", "srun", …, for messages
};

/// Reads RANK and WORLD_SIZE (torchrun), else what Open MPI, other MPIs with
/// PMI, and Slurm set. Empty if no launcher started this process. Throws
/// fsdp::Error (RendezvousInvalid) if what is there makes no sense.
std::optional<LauncherInfo> readLauncher();

/// Where the ranks meet.
struct Rendezvous {
  enum class Kind { tcp, file };
  Kind kind = Kind::tcp;
  std::string host; ///< tcp
  int port = 0;     ///< tcp
  std::string path; ///< file
  /// tcp: whether the launcher serves the store, so that rank 0 need not. It
  /// then holds what ranks of earlier starts left, too.
  bool served = false;
  /// Of all keys. Files tell restarts apart by it, by their number.
  std::string prefix;

  /// Whether all ranks are known to be on this machine.
  bool isLoopback() const;
};

/// Understands env://, tcp://host:port and file:///path. Throws fsdp::Error
/// (RendezvousInvalid).
Rendezvous parseRendezvous(std::string_view address);

/// Takes a sentence for people.
using StoreNote = std::function<void(const std::string &)>;

/// Connects this rank to the store; rank 0 serves it where nobody else does.
/// Where the launcher does, collective over the ranks: they agree on keys of
/// their own. Throws fsdp::Error (RendezvousFailed) if it is not there by the
/// deadline, or (RankMissing) if a rank is not.
std::unique_ptr<Store> connectStore(const Rendezvous &where, int rank,
                                    int worldSize,
                                    std::chrono::milliseconds deadline,
                                    const StoreNote &note = {});

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_PROCESSES_RENDEZVOUS_H
