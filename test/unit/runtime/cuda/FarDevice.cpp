//===- FarDevice.cpp - A device that is the host in disguise --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "FarDevice.h"

#include "FakeDriver.h"
#include "FarWitness.h"
#include "SimulatedGraphs.h"
#include "runtime/comm/one_device/DeviceFabric.h"
#include "runtime/device/NumberReader.h"
#include "runtime/device/StreamAheadWriter.h"
#include "runtime/device/StreamCopies.h"
#include "runtime/device/StreamMemory.h"
#include "runtime/exec/CaptureAgreement.h"
#include "runtime/exec/StepGraphs.h"
#include "runtime/kernels/GpuKernels.h"

#include <ATen/core/Tensor.h>

#include <cstring>
#include <optional>

using namespace fsdp;
using namespace fsdp::test;

namespace {

/// The device's.
class FarMemory final : public StreamMemory {
public:
  FarMemory(std::shared_ptr<SimulatedDevice> device,
            std::shared_ptr<Streams> streams, std::string owner)
      : StreamMemory(std::move(streams), {[] {}, kFarPatience}),
        device(std::move(device)), owner(std::move(owner)) {}
  char *map(uint64_t bytes) override {
    char *begin = hostMemory().map(bytes);
    device->addMemory(begin, bytes, "device memory" + owner);
    fill(begin, 0, bytes);
    return begin;
  }
  void unmap(char *begin, uint64_t bytes) noexcept override {
    device->removeMemory(begin);
    hostMemory().unmap(begin, bytes);
  }

private:
  const std::shared_ptr<SimulatedDevice> device;
  const std::string owner;
};

/// The host's, pinned or not.
class BesideMemory final : public Memory {
public:
  BesideMemory(std::shared_ptr<SimulatedDevice> device, std::string owner,
               bool isPinned)
      : device(std::move(device)), owner(std::move(owner)), isPinned(isPinned) {
  }
  bool isHost() const override { return true; }
  char *map(uint64_t bytes) override {
    char *begin = hostMemory().map(bytes);
    device->addMemory(begin, bytes,
                      (isPinned ? "pinned memory" : "host memory") + owner,
                      isPinned);
    return begin;
  }
  void unmap(char *begin, uint64_t bytes) noexcept override {
    device->removeMemory(begin);
    hostMemory().unmap(begin, bytes);
  }
  void clear(char *begin, uint64_t bytes) override { fill(begin, 0, bytes); }
  void write(char *to, const void *from, uint64_t bytes) override {
    device->hostUses({to, bytes, true, device->describe(to)});
    std::memcpy(to, from, bytes);
  }
  void read(void *to, const char *from, uint64_t bytes) override {
    device->hostUses({from, bytes, false, device->describe(from)});
    std::memcpy(to, from, bytes);
  }
  void fill(char *to, unsigned char byte, uint64_t bytes) override {
    device->hostUses({to, bytes, true, device->describe(to)});
    std::memset(to, byte, bytes);
  }

private:
  const std::shared_ptr<SimulatedDevice> device;
  const std::string owner;
  const bool isPinned;
};

class FarDevice final : public Device {
public:
  FarDevice(Fabric &host, std::shared_ptr<SimulatedDevice> onDevice,
            const FarOptions &options)
      : device(std::move(onDevice)), options(options), connection(host),
        owner(" of rank " + std::to_string(host.rank())),
        streams(host.streams()
                    ? std::static_pointer_cast<SimulatedStreams>(host.streams())
                    : std::make_shared<SimulatedStreams>(device, owner)),
        far(device, streams, owner), pinned(device, owner, /*isPinned=*/true),
        pageable(device, owner, /*isPinned=*/false),
        numbers(streams, pinned, far), watcher(device),
        launches(FakeDriver::functions(), streams->device(), kFarCapability),
        graphs(options.graphs ? CudaGraph::automatic : CudaGraph::off,
               std::make_unique<SimulatedRecorder>(device),
               {[this](const std::string &program, const std::string &reason) {
                  return own ? reason
                             : agreeOnCapture(connection, program, reason);
                },
                [this] { far.synchronize(); }}) {
    device->nameHost("the host" + owner);
    if (host.streams() && host.worldSize() > 1)
      device->keepToThisThread();
    streams->use();
    SimulatedDevice::current() = streams->compute();
    if (!host.streams() || host.worldSize() == 1)
      own.emplace(host, streams, makeSimulatedReduce(device), kFarPatience);
  }

  c10::Device torch() const override { return c10::Device(c10::kCPU); }
  bool isHost() const override { return false; }
  Memory &memory() override { return far; }
  Memory &besideMemory(bool isPinned) override {
    return isPinned ? pinned : pageable;
  }
  std::unique_ptr<Copies> makeCopies() override {
    if (options.makeCopies)
      return options.makeCopies(streams);
    return std::make_unique<StreamCopies>(streams, kFarPatience);
  }
  Fabric &fabric() override {
    return own ? static_cast<Fabric &>(*own) : connection;
  }
  std::unique_ptr<AheadWriter> makeAheadWriter() override {
    return std::make_unique<StreamAheadWriter>(streams, pinned, far);
  }
  Witness *witness() override { return &watcher; }
  DeviceActivities *activities() override { return options.activities.get(); }
  void rehearse(Executor &executor) override {
    together({streams.get(), &executor, 0}, [&](auto tasks) {
      graphs.expect(tasks);
      device->synchronizeAll();
      for (DeviceTask *task : tasks)
        task->executor->rehearse();
    });
  }
  void run(Executor &executor, uint64_t step,
           ProfileRecorder *recorder) override {
    together({streams.get(), &executor, step, recorder},
             [&](auto tasks) { graphs.run(tasks); });
  }
  void finish() noexcept override {
    try {
      device->synchronizeAll();
    } catch (const std::exception &) {
      device->drop(); // a rank failed: nobody looks at what is left
    }
    graphs.clear();
  }
  std::unique_ptr<Instruction> prepareDraw(Preparation &,
                                           const plan::DrawT &) override {
    return nullptr;
  }
  GpuKernels *kernels() override { return &launches; }
  StreamHandle computeStream() override { return streams->compute(); }
  double readNumber(const at::Tensor &tensor) override {
    return numbers.read({&tensor, 1})[0];
  }
  std::vector<double>
  readNumbers(std::span<const at::Tensor> tensors) override {
    return numbers.read(tensors);
  }

private:
  /// Calls `lead` with all ranks' tasks, on one thread. What a rank's host did
  /// before, that thread knows of, and the rank of what it did.
  void together(DeviceTask task,
                const std::function<void(std::span<DeviceTask *const>)> &lead) {
    auto all = [&](std::span<void *const> tasks) {
      device->meet(device.get());
      std::vector<DeviceTask *> each;
      for (void *one : tasks)
        each.push_back(static_cast<DeviceTask *>(one));
      lead(each);
      device->meet(device.get());
    };
    device->meet(device.get());
    if (own) {
      own->sharedDevice()->together(connection.rank(), &task, all);
    } else {
      void *mine = &task;
      all({&mine, 1});
    }
    device->meet(device.get());
  }

  const std::shared_ptr<SimulatedDevice> device;
  const FarOptions options;
  Fabric &connection;
  const std::string owner;
  const std::shared_ptr<SimulatedStreams> streams;
  FarMemory far;
  BesideMemory pinned, pageable;
  NumberReader numbers;
  FarWitness watcher;
  GpuKernels launches;
  std::optional<DeviceFabric> own; ///< where ranks share the device
  StepGraphs graphs;               ///< rank 0's, of all that share the device
};

} // namespace

std::unique_ptr<Device>
fsdp::test::makeFarDevice(Fabric &fabric,
                          std::shared_ptr<SimulatedDevice> device,
                          const FarOptions &options) {
  return std::make_unique<FarDevice>(fabric, std::move(device), options);
}
