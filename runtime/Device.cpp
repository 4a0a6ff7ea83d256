//===- Device.cpp - What a rank computes on -------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/Device.h"

#include "runtime/Executor.h"
#include "runtime/support/Error.h"
#ifdef FSDP_CUDA
#include "runtime/cuda/CudaDevice.h"
#endif

#include <ATen/core/Tensor.h>

using namespace fsdp;

namespace {

class HostDevice final : public Device {
public:
  explicit HostDevice(Fabric &fabric) : connection(fabric) {}

  c10::Device torch() const override { return c10::Device(c10::kCPU); }
  Memory &memory() override { return hostMemory(); }
  Fabric &fabric() override { return connection; }
  void rehearse(Executor &executor) override { executor.rehearse(); }
  void run(Executor &executor, uint64_t step,
           ProfileRecorder *recorder) override {
    if (recorder)
      executor.run(step, *recorder);
    else
      executor.run(step);
  }
  double readNumber(const at::Tensor &tensor) override {
    return tensor.item<double>();
  }

private:
  Fabric &connection;
};

} // namespace

std::unique_ptr<AheadWriter> Device::makeAheadWriter() { return nullptr; }

std::vector<double> Device::readNumbers(std::span<const at::Tensor> tensors) {
  std::vector<double> numbers;
  for (const at::Tensor &tensor : tensors)
    numbers.push_back(readNumber(tensor));
  return numbers;
}

std::unique_ptr<Instruction> Device::prepareDraw(Preparation &,
                                                 const plan::DrawT &) {
  return nullptr;
}

std::unique_ptr<Device> fsdp::makeHostDevice(Fabric &fabric) {
  return std::make_unique<HostDevice>(fabric);
}

bool fsdp::isForHost(const plan::PlanT &plan) {
  const std::string &device = plan.training->device;
  return device.empty() || device == "cpu";
}

void fsdp::checkDevice(const plan::PlanT &plan) {
  if (isForHost(plan))
    return;
#ifdef FSDP_CUDA
  checkCudaDevice(plan.training->device);
#else
  throw Error(ErrorId::RuntimeUnsupported,
              "the artifact is for device '" + plan.training->device +
                  "'; this build runs on 'cpu': compile with device: cpu, or "
                  "build fsdp-run with -DFSDP_CUDA=ON");
#endif
}

std::shared_ptr<Streams> fsdp::makeStreams(const plan::PlanT &plan,
                                           int localRank) {
  checkDevice(plan);
#ifdef FSDP_CUDA
  return makeStreamsOfRank(localRank);
#else
  return nullptr;
#endif
}

std::unique_ptr<Device> fsdp::makeDevice(const plan::PlanT &plan,
                                         Fabric &fabric,
                                         const SessionOptions &options) {
  if (!isForHost(plan)) {
    checkDevice(plan);
#ifdef FSDP_CUDA
    return makeCudaDevice(plan, fabric, options);
#endif
  }
  if (fabric.streams())
    throw Error(ErrorId::RuntimeUnsupported,
                "the back end moves a GPU's memory, and the artifact is for "
                "device 'cpu': compile with device: cuda, or use "
                "--backend=local or gloo");
  return makeHostDevice(fabric);
}
