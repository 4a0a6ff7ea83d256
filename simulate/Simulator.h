//===- Simulator.h - How a plan will run ------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs the instructions that the runtime will execute, on the resources of a
// cluster instead of a device. Ranks do the same at the same time, so one is
// enough, and neither time nor memory grow with their number.
//
// A rank has a lane for kernels and one for each stream of transfers; each lane
// takes what it was given in order. What is active at once shares the
// processor, the memory's bandwidth, the links of a node and the network: where
// they want more than there is, all that use it become slower alike (on a GPU,
// transfers have their multiprocessors to themselves, and kernels the rest).
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_SIMULATE_SIMULATOR_H
#define FSDP_SIMULATE_SIMULATOR_H

#include "plan/Programs.h"
#include "simulate/Cluster.h"
#include "simulate/Work.h"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace fsdp {

/// Of one instruction on the lane of kernels; seconds from the program's begin.
struct PredictedKernel {
  uint32_t instruction;
  WorkKind kind;
  double begin, end;
};

struct PredictedTransfer {
  uint32_t start, wait; ///< instructions
  std::string bucket;
  std::string kind; ///< "all_gather", "upload"
  plan::Stream stream;
  uint64_t bytes;    ///< as plan/Traffic.h counts them
  double given;      ///< the lane of kernels has reached the start
  double begin, end; ///< it moves
  double asked;      ///< the lane of kernels has reached the wait
  double alone;      ///< seconds that it takes with all to itself

  /// Seconds in which kernels wait for it.
  double exposed() const { return end > asked ? end - asked : 0; }
};

/// Bytes of transient tensors behind an instruction; `at` as above.
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
  uint64_t planned = 0;   ///< bytes of the device's region
  uint64_t scratch = 0;   ///< bound of the kernels' temporaries, where known
  uint64_t reserved = 0;  ///< context and libraries
  uint64_t capacity = 0;  ///< of the device
  uint64_t hostPlanned = 0;
  std::vector<PredictedProgram> programs;

  uint64_t held() const { return planned + scratch + reserved; }
  bool fits() const { return held() <= capacity; }
};

/// `plan` was verified. Of programs that differ in shapes alone, the first
/// counts. Throws fsdp::Error (ConfigBadValue) if the plan is for another kind
/// of device.
Prediction simulate(const plan::PlanT &plan, const Cluster &cluster);

} // namespace fsdp

#endif // FSDP_SIMULATE_SIMULATOR_H
