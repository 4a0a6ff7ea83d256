//===- Clocks.h - The times of several hosts on one clock -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_PROFILE_CLOCKS_H
#define FSDP_RUNTIME_PROFILE_CLOCKS_H

#include "runtime/comm/Communicator.h"

#include <cstdint>
#include <functional>
#include <string>

namespace fsdp {

/// Names the steady clock that this process reads: equal for processes that are
/// known to read the same one.
std::string describeClock();

/// What has to be added to a rank's times, in nanoseconds, to have those of the
/// group's first rank.
struct ClockOffset {
  int64_t offset = 0;
  /// The true offset is no further away than this, whatever the network did.
  int64_t uncertainty = 0;
};

/// Collective over the communicator's ranks. A rank that has received what
/// another one sent knows that its own clock now is later than the other's was
/// then: each round bounds the offset from both sides, and the tightest bounds
/// of all rounds count. `now` reads this rank's clock, in nanoseconds. Throws
/// fsdp::Error.
ClockOffset measureClock(Communicator &communicator, int rounds,
                         const std::function<int64_t()> &now);

} // namespace fsdp

#endif // FSDP_RUNTIME_PROFILE_CLOCKS_H
