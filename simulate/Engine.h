//===- Engine.h - Lanes that share resources --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A lane of kernels and one for each stream of transfers; each takes what it
// was given in order. What is active at once shares the processor, the memory's
// bandwidth, the links of a node and the network: where they want more than
// there is, all that use it become slower alike. On a GPU, transfers have their
// multiprocessors to themselves, and kernels the rest. Where it was measured
// how a transfer goes beside kernels on the same cores, that goes before shares
// of the processor.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_SIMULATE_ENGINE_H
#define FSDP_SIMULATE_ENGINE_H

#include "plan/plan_generated.h"
#include "simulate/Curve.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace fsdp {

enum Resource : uint8_t { Processor, Memory, Link, Network, kResources };
/// Of each resource, the part that something takes alone; 1 is all of it.
using Shares = std::array<double, kResources>;

inline constexpr size_t kLanes = size_t(plan::Stream::MAX) + 1;

/// What the lane of kernels is given, in order.
struct LaneStep {
  enum Kind : uint8_t { kernel, start, wait };
  Kind kind = kernel;
  uint8_t lane = 0;      ///< of a start: a plan::Stream
  uint32_t transfer = 0; ///< of a start or wait; numbered by their starts
  double seconds = 0;    ///< of a kernel or a transfer, alone
  Shares shares{};
  /// Of the lane of kernels: before a start is given, or once a wait is over.
  double handling = 0;
  /// Of a transfer that shares its cores with kernels: how long it takes while
  /// they run, 0: by its share of the processor; and of that, what they lose.
  double beside = 0, lost = 0;
  bool meets = false; ///< a wait for other ranks
};

/// Seconds from the begin.
struct KernelTimes {
  double begin, end;
};
struct TransferTimes {
  double given;      ///< the lane of kernels has reached the start
  double begin, end; ///< it moves, and what the wait does once it has
  double asked;      ///< and the wait; infinite if there is none
  double starting;   ///< the lane of kernels was busy with the start

  /// Kernels wait for it.
  double exposed() const { return starting + (end > asked ? end - asked : 0); }
};

struct LaneTimes {
  double seconds = 0; ///< until all lanes are done
  double compute = 0; ///< in kernels
  double exposed = 0; ///< in waits, and in what starts and waits do
  double idle = 0;    ///< until the host has issued
  std::vector<KernelTimes> kernels;
  std::vector<TransferTimes> transfers;
};

struct EngineOptions {
  /// Ranks for each core of a node, where kernels share the host's; 0: a device
  /// of their own.
  double ranksPerCore = 0;
  double issue = 0; ///< seconds of the host for a kernel or a start
  /// Seconds that a wait for other ranks takes longer because they do not come
  /// at once, over those since the one before; may be empty.
  Curve skew;
};

/// A wait follows its start. O(steps).
LaneTimes runLanes(const std::vector<LaneStep> &steps,
                   const EngineOptions &options);

} // namespace fsdp

#endif // FSDP_SIMULATE_ENGINE_H
