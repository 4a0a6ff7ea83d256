//===- HostDevice.cpp - The device that is none ---------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/exec/HostDevice.h"

#include "runtime/device/ThreadCopies.h"
#include "runtime/exec/Executor.h"

#include <ATen/core/Tensor.h>

using namespace fsdp;

namespace {

class HostDevice final : public Device {
public:
  HostDevice(Fabric &fabric, double copyBandwidth)
      : connection(fabric), copyBandwidth(copyBandwidth) {}

  c10::Device torch() const override { return c10::Device(c10::kCPU); }
  Memory &memory() override { return hostMemory(); }
  std::unique_ptr<Copies> makeCopies() override {
    return makeThreadCopies(copyBandwidth);
  }
  Fabric &fabric() override { return connection; }
  void rehearse(Executor &executor) override { executor.rehearse(); }
  void run(Executor &executor, uint64_t step,
           ProfileRecorder *recorder) override {
    if (recorder)
      executor.run(step, *recorder);
    else
      executor.run(step);
  }
  std::unique_ptr<Instruction> prepareDraw(Preparation &,
                                           const plan::DrawT &) override {
    return nullptr;
  }
  double readNumber(const at::Tensor &tensor) override {
    return tensor.item<double>();
  }

private:
  Fabric &connection;
  const double copyBandwidth;
};

} // namespace

std::unique_ptr<Device> fsdp::makeHostDevice(Fabric &fabric,
                                             double copyBandwidth) {
  return std::make_unique<HostDevice>(fabric, copyBandwidth);
}
