//===- ClusterText.h - Measurements as a cluster's file ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_CALIBRATE_CLUSTERTEXT_H
#define FSDP_RUNTIME_CALIBRATE_CLUSTERTEXT_H

#include "runtime/calibrate/Crew.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace fsdp {

/// What is known of a machine without measuring.
struct MachineFacts {
  std::string backend;
  std::string processor; ///< its name
  std::string threads;   ///< of the ranks, for people
  int cores = 1;
  uint64_t memory = 0;   ///< bytes
  uint64_t reserved = 0; ///< bytes of a rank before it has data
};

/// As YAML reads it.
std::string printNumber(double value);
/// The rows of a table, "[[64.0, 1.0e-06], …]".
std::string printRows(const std::vector<Measured> &results,
                      const std::string &table);

/// YAML as docs/Simulate.md says. `byRanks` has what was measured of so many
/// ranks together: kernels of at least one rank, and of none where ranks are
/// more than cores.
std::string printCluster(const MachineFacts &facts,
                         const std::map<int, std::vector<Measured>> &byRanks);

} // namespace fsdp

#endif // FSDP_RUNTIME_CALIBRATE_CLUSTERTEXT_H
