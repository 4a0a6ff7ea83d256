//===- Harness.h - Run the ranks of a back end ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TEST_UNIT_RUNTIME_COMM_HARNESS_H
#define FSDP_TEST_UNIT_RUNTIME_COMM_HARNESS_H

#include "runtime/comm/backends/Backends.h"
#include "support/Error.h"

#include <functional>
#include <string>
#include <vector>

namespace fsdp::test {

/// What one rank does. It throws if what it finds is not what it expects.
using Scenario = std::function<void(Fabric &)>;

/// How to run one scenario.
struct RankSetup {
  std::string backend;
  int worldSize;
  std::chrono::milliseconds deadline = std::chrono::seconds(60);
  /// A file instead of a TCP port.
  bool meetInFile = false;
  /// Ranks that are never started.
  std::vector<int> absent = {};
  /// Connects a process instead of the back end of that name.
  std::function<std::unique_ptr<Fabric>(const FabricOptions &)> connect =
      nullptr;
};

/// Runs `scenario` on all ranks: as threads, or as forked processes with an
/// environment as a launcher sets it. Returns what each rank reports: "" if all
/// went well, "killed by signal N", "E090 …" for an fsdp::Error, else what the
/// exception says.
std::vector<std::string> runRanks(const RankSetup &setup,
                                  const Scenario &scenario);

/// Throws if `condition` does not hold.
void require(bool condition, const std::string &what);

} // namespace fsdp::test

#endif // FSDP_TEST_UNIT_RUNTIME_COMM_HARNESS_H
