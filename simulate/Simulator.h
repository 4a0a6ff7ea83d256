//===- Simulator.h - How a plan will run ------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Gives the instructions that the runtime will execute to the lanes of a
// cluster (Engine.h) instead of a device. Ranks do the same at the same time,
// so one is enough, and neither time nor memory grow with their number.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_SIMULATE_SIMULATOR_H
#define FSDP_SIMULATE_SIMULATOR_H

#include "plan/Programs.h"
#include "simulate/Cluster.h"
#include "simulate/Engine.h"
#include "simulate/Work.h"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace fsdp {

/// Of one instruction on the lane of kernels; seconds from the program's begin.
struct PredictedKernel : KernelTimes {
  uint32_t instruction;
  WorkKind kind;
};

/// Seconds from the program's begin.
struct PredictedTransfer : TransferTimes {
  uint32_t start, wait; ///< instructions
  std::string bucket;
  std::string kind; ///< "all_gather", "upload"
  plan::Stream stream;
  uint64_t bytes; ///< as plan/Traffic.h counts them
  double alone;   ///< seconds that it takes with all to itself
};

/// Bytes of transient tensors (TransientBytes.h) from an instruction on; `at`
/// as above.
struct PredictedUse {
  uint32_t instruction;
  double at;
  uint64_t bytes;
};

/// One run of a program.
struct PredictedProgram {
  uint32_t program;  ///< of the plan
  uint32_t runs = 1; ///< in a step
  double seconds = 0;
  double compute = 0;                      ///< in kernels
  double exposed = 0;                      ///< waiting for transfers
  double idle = 0;                         ///< waiting for the host to issue
  double flops = 0;                        ///< of all kernels
  std::array<double, kWorkKinds> byKind{}; ///< seconds in kernels
  std::vector<PredictedKernel> kernels;
  std::vector<PredictedTransfer> transfers; ///< in the order of their starts
  std::vector<PredictedUse> uses; ///< of the device's memory, where it changes
};

/// Of one training step, or of one run of an inference program.
struct Prediction {
  std::string cluster;
  int64_t ranks = 1, nodes = 1;
  double seconds = 0, compute = 0, exposed = 0, idle = 0, flops = 0;
  uint64_t wireBytes = 0; ///< of all collectives of a step
  /// That all ranks read in a step, or one run of an inference program; 0: the
  /// inputs do not say.
  double tokens = 0;
  uint64_t planned = 0; ///< bytes of the device's region
  /// Bound of the kernels' temporaries and of what libraries work in, but for
  /// what is unknown of some operators, or of all ("all").
  uint64_t scratch = 0;
  std::vector<std::string> scratchUnknown;
  uint64_t reserved = 0; ///< context and libraries
  uint64_t communicators =
      0; ///< bytes of the buffers of a rank's communicators
  uint64_t communicatorCount = 0;
  uint64_t capacity = 0; ///< of the device; a rank's share of a host's
  uint64_t hostPlanned = 0;
  bool isHost = false; ///< the device is the host
  std::vector<PredictedProgram> programs;

  /// Of what `capacity` is of.
  uint64_t held() const {
    return planned + scratch + reserved + communicators +
           (isHost ? hostPlanned : 0);
  }
  bool fits() const { return held() <= capacity; }
  /// Of all ranks; 0: not known.
  double tokensPerSecond() const { return seconds > 0 ? tokens / seconds : 0; }
};

/// How the lanes of one rank of the plan behave.
EngineOptions getEngineOptions(const plan::PlanT &plan, const Cluster &cluster);

/// `plan` was verified. Of programs that differ in shapes alone, the first
/// counts. Throws fsdp::Error (ConfigBadValue) if the plan is for another kind
/// of device.
Prediction simulate(const plan::PlanT &plan, const Cluster &cluster);

} // namespace fsdp

#endif // FSDP_SIMULATE_SIMULATOR_H
