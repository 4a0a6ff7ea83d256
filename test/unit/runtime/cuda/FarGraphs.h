//===- FarGraphs.h - One launch per step, on a simulated device -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What runtime/cuda/StepGraphs.h does with LibTorch's graphs, in the same
// order, with those of SimulatedDevice.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TEST_UNIT_RUNTIME_CUDA_FARGRAPHS_H
#define FSDP_TEST_UNIT_RUNTIME_CUDA_FARGRAPHS_H

#include "SimulatedStreams.h"
#include "runtime/exec/Executor.h"
#include "runtime/exec/Transfers.h"

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace fsdp::test {

struct FarTask {
  SimulatedStreams *streams;
  Executor *executor;
  uint64_t step;
  ProfileRecorder *recorder = nullptr;
};

/// Used by one thread.
class FarGraphs {
public:
  /// `isOn`: programs are captured in their second run, if they can be.
  FarGraphs(std::shared_ptr<SimulatedDevice> device, bool isOn)
      : device(std::move(device)), isOn(isOn) {}

  void run(std::span<FarTask *const> tasks);
  uint64_t launches() const { return launched; }
  void clear() noexcept { entries.clear(); }

private:
  struct Entry {
    unsigned runs = 0;
    bool isRefused = false;
    std::shared_ptr<SimulatedDevice::Graph> graph;
    std::vector<Transfers::Counts> transfers;
    std::vector<Transfers::Captured> captured;
  };

  void put(std::span<FarTask *const> tasks) const;
  void fork(std::span<FarTask *const> tasks);
  void join(std::span<FarTask *const> tasks);
  bool capture(Entry &entry, std::span<FarTask *const> tasks);
  void replay(Entry &entry, std::span<FarTask *const> tasks);

  const std::shared_ptr<SimulatedDevice> device;
  const bool isOn;
  std::map<const Executor *, Entry> entries; ///< by rank 0's
  std::vector<EventHandle> events;
  uint64_t launched = 0;
};

} // namespace fsdp::test

#endif // FSDP_TEST_UNIT_RUNTIME_CUDA_FARGRAPHS_H
