//===- SimulatedGraphs.cpp - Graphs of a simulated device -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "SimulatedGraphs.h"

using namespace fsdp;
using namespace fsdp::test;

namespace {

class SimulatedGraph final : public WorkGraph {
public:
  SimulatedGraph(std::shared_ptr<SimulatedDevice> device,
                 std::shared_ptr<SimulatedDevice::Graph> graph)
      : device(std::move(device)), graph(std::move(graph)) {}

  void launch() override { device->launch(*graph); }
  size_t size() const override { return device->sizeOf(*graph); }

private:
  const std::shared_ptr<SimulatedDevice> device;
  const std::shared_ptr<SimulatedDevice::Graph> graph;
};

} // namespace

std::unique_ptr<WorkGraph>
SimulatedRecorder::record(StreamHandle stream,
                          const std::function<void()> &put) {
  device->beginCapture(stream);
  try {
    put();
  } catch (...) {
    try {
      (void)device->endCapture();
    } catch (const std::exception &) {
      // Of the same reason.
    }
    throw;
  }
  return std::make_unique<SimulatedGraph>(device, device->endCapture());
}
