//===- SimulatedGraphs.h - Graphs of a simulated device ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What StepGraphs asks of a device, by SimulatedDevice's captures: they keep
// what streams are asked for, and each launch does that when its turn has come.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TEST_UNIT_RUNTIME_CUDA_SIMULATEDGRAPHS_H
#define FSDP_TEST_UNIT_RUNTIME_CUDA_SIMULATEDGRAPHS_H

#include "SimulatedStreams.h"
#include "runtime/device/GraphRecorder.h"

#include <memory>
#include <utility>

namespace fsdp::test {

class SimulatedRecorder final : public GraphRecorder {
public:
  explicit SimulatedRecorder(std::shared_ptr<SimulatedDevice> device)
      : device(std::move(device)) {}

  void enter(StreamHandle stream) override {
    SimulatedDevice::current() = stream;
  }
  std::unique_ptr<WorkGraph> record(StreamHandle stream,
                                    const std::function<void()> &put) override;
  /// The host's libraries take no part in a capture.
  bool recovers(const std::string &, StreamHandle) override { return true; }

private:
  const std::shared_ptr<SimulatedDevice> device;
};

} // namespace fsdp::test

#endif // FSDP_TEST_UNIT_RUNTIME_CUDA_SIMULATEDGRAPHS_H
