//===- Threads.h - How many threads a rank has, and where -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_LAUNCH_THREADS_H
#define FSDP_RUNTIME_LAUNCH_THREADS_H

#include "runtime/comm/Communicator.h"
#include "runtime/launch/Launch.h"

#include <optional>
#include <span>
#include <string>
#include <vector>

#include <sched.h>

namespace fsdp {

/// A processor as Linux counts them: one hardware thread of a core.
struct Processor {
  int number;
  int package; ///< socket
  int core; ///< the same for all hardware threads of a core; unique in a host
};

/// What a rank says of itself before threads are dealt out.
struct RankRoom {
  std::string host; ///< equal for ranks of one machine
  /// That it may run on, ascending.
  std::vector<Processor> processors;
  int asked = 0; ///< threads that somebody asked for; 0: nobody
};

/// What a rank gets.
struct RankThreads {
  int count = 1;
  /// Processors of its own that it is pinned to; empty: not pinned.
  std::vector<int> processors;
};

/// This process's.
RankRoom findRoom(int asked);

/// By rank, of one machine or several; the same for all who ask. Where nobody
/// asked for a number, ranks divide what they share, so that no two threads
/// need the same processor (with Pin::cores: core), down to one thread a rank.
/// Throws fsdp::Error (BadUsage) if pinning finds too few.
std::vector<RankThreads> assignThreads(std::span<const RankRoom> ranks,
                                       Pin pin);

/// A warning if ranks that share processors with `rank` run more threads than
/// there are, although fewer were possible; empty otherwise, and for all but
/// the first of these ranks.
std::optional<std::string>
describeOversubscription(std::span<const RankRoom> ranks,
                         std::span<const RankThreads> threads, int rank);

/// "0-7,16-16" of the numbers, which ascend: short, however many there are.
std::string printRanges(std::span<const Processor> processors);
std::vector<int> parseRanges(const std::string &text);

/// Collective: what this rank gets beside the others of its machine. `isAlone`:
/// there are no others. Throws fsdp::Error (BadUsage), on all ranks of a
/// machine alike.
RankThreads agreeOnThreads(Fabric &fabric, int asked, Pin pin, bool isAlone);

/// Keeps the calling thread, and all threads that it creates meanwhile, on some
/// processors. Threads of OpenMP are created at the first parallel region of
/// the thread that they serve.
class PinnedThread {
public:
  /// Throws fsdp::Error (BadUsage) if the system does not let it.
  explicit PinnedThread(std::span<const int> processors);
  /// Where it was before.
  ~PinnedThread();
  PinnedThread(const PinnedThread &) = delete;
  PinnedThread &operator=(const PinnedThread &) = delete;

private:
  cpu_set_t before;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_LAUNCH_THREADS_H
