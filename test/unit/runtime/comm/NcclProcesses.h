//===- NcclProcesses.h - Ranks of the fake NCCL as processes ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TEST_UNIT_RUNTIME_COMM_NCCLPROCESSES_H
#define FSDP_TEST_UNIT_RUNTIME_COMM_NCCLPROCESSES_H

#include "Harness.h"
#include "NcclHarness.h"
#include "NcclOnStreams.h"

#include <chrono>
#include <cstdlib>
#include <memory>

namespace fsdp::test {

/// Of this process's rank.
inline std::shared_ptr<RecordingStreams> device;

/// Processes that meet in a store, as in a run.
inline RankSetup processes(int worldSize, std::chrono::milliseconds deadline) {
  RankSetup setup{"nccl", worldSize, deadline};
  setup.connect = [](const FabricOptions &given) {
    NcclScript &script = useFakeNccl(FSDP_FAKE_NCCL);
    FabricOptions options = given;
    const char *rank = std::getenv("RANK");
    device = std::make_shared<RecordingStreams>(0, rank);
    playOn(script, device);
    options.streams = device;
    return connectNcclFabric(options);
  };
  return setup;
}

} // namespace fsdp::test

#endif // FSDP_TEST_UNIT_RUNTIME_COMM_NCCLPROCESSES_H
