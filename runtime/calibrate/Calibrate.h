//===- Calibrate.h - fsdp-run --calibrate -----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_CALIBRATE_CALIBRATE_H
#define FSDP_RUNTIME_CALIBRATE_CALIBRATE_H

#include "runtime/exec/MatmulLibrary.h"

#include <chrono>
#include <string>

namespace fsdp {

struct CalibrateOptions {
  std::string path; ///< the cluster's file that is written
  /// "local" or "gloo", or of GPUs "nccl"; empty: gloo if a launcher started
  /// this process.
  std::string backend;
  std::string rendezvous = "env://";
  std::chrono::milliseconds deadline = std::chrono::minutes(10);
  /// The most ranks that are measured together, where they are threads; 0: as
  /// many as processors, but at least two. Of processes: all that there are.
  int ranks = 0;
  /// Of each rank; 0: OMP_NUM_THREADS, else processors divided by ranks.
  int threads = 0;
  MatmulLibrary matmul = MatmulLibrary::automatic;
};

/// Measures kernels and transfers as runs of this back end on this machine have
/// them, for one rank and more, and writes what simulate/Cluster.h reads.
/// Collective over the ranks; progress on stderr. Throws fsdp::Error (BadUsage,
/// RuntimeUnsupported, and as ranks meet).
void calibrate(const CalibrateOptions &options);

} // namespace fsdp

#endif // FSDP_RUNTIME_CALIBRATE_CALIBRATE_H
