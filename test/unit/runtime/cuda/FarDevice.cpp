//===- FarDevice.cpp - A device that is the host in disguise --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "FarDevice.h"

#include "SimulatedStreams.h"
#include "plan/Reader.h"
#include "runtime/comm/local/Local.h"
#include "runtime/comm/one_device/DeviceFabric.h"
#include "runtime/device/Device.h"
#include "runtime/device/ThreadCopies.h"
#include "runtime/exec/InTurn.h"
#include "runtime/profile/Recorder.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <cstring>
#include <filesystem>
#include <mutex>
#include <thread>

using namespace fsdp;
using namespace fsdp::test;

namespace {

class FarMemory final : public Memory {
public:
  bool isHost() const override { return false; }
  char *map(uint64_t bytes) override { return hostMemory().map(bytes); }
  void unmap(char *begin, uint64_t bytes) noexcept override {
    hostMemory().unmap(begin, bytes);
  }
  void clear(char *begin, uint64_t bytes) override {
    hostMemory().clear(begin, bytes);
  }
  void write(char *to, const void *from, uint64_t bytes) override {
    hostMemory().write(to, from, bytes);
  }
  void read(void *to, const char *from, uint64_t bytes) override {
    hostMemory().read(to, from, bytes);
  }
  void fill(char *to, unsigned char byte, uint64_t bytes) override {
    hostMemory().fill(to, byte, bytes);
  }
};

class FarAheadWriter final : public AheadWriter {
public:
  void begin(std::span<const std::span<const std::byte>> parts) override {
    held.clear();
    for (std::span<const std::byte> part : parts)
      held.emplace_back(part.begin(), part.end());
  }
  void put(size_t index, char *to) override {
    std::memcpy(to, held.at(index).data(), held.at(index).size());
  }
  uint64_t memory() const override { return 0; }

private:
  std::vector<std::vector<std::byte>> held;
};

/// Takes for work what happens between a mark's begin and its end.
class FarActivities final : public DeviceActivities {
public:
  void begin() override {}
  void end() override {}
  void enter(uint64_t mark) override {
    open().push_back({ProfileRecorder::now(), 0, 0, true, mark});
  }
  void leave() noexcept override {
    DeviceActivity done = open().back();
    open().pop_back();
    done.end = ProfileRecorder::now();
    std::lock_guard lock(mutex);
    listing.activities.push_back(done);
  }
  DeviceListing list() override {
    std::lock_guard lock(mutex);
    return listing;
  }

private:
  static std::vector<DeviceActivity> &open() {
    thread_local std::vector<DeviceActivity> own;
    return own;
  }

  std::mutex mutex;
  DeviceListing listing;
};

class FarDevice final : public Device {
public:
  FarDevice(Fabric &host, std::shared_ptr<SimulatedDevice> device,
            FarActivities &activities)
      : all(activities),
        connection(host, std::make_shared<SimulatedStreams>(device),
                   makeSimulatedReduce(device), std::chrono::seconds(30)) {}

  c10::Device torch() const override { return c10::Device(c10::kCPU); }
  Memory &memory() override { return far; }
  std::unique_ptr<Copies> makeCopies() override {
    return makeThreadCopies(/*bandwidth=*/0);
  }
  Fabric &fabric() override { return connection; }
  DeviceActivities *activities() override { return &all; }
  std::unique_ptr<AheadWriter> makeAheadWriter() override {
    return std::make_unique<FarAheadWriter>();
  }
  void rehearse(Executor &executor) override {
    connection.sharedDevice()->together(
        connection.rank(), &executor, [](std::span<void *const> all) {
          for (void *each : all)
            static_cast<Executor *>(each)->rehearse();
        });
  }
  void run(Executor &executor, uint64_t step,
           ProfileRecorder *recorder) override {
    Turn mine{&executor, step, recorder};
    connection.sharedDevice()->together(
        connection.rank(), &mine, [](std::span<void *const> all) {
          std::vector<Turn> turns;
          for (void *each : all)
            turns.push_back(*static_cast<Turn *>(each));
          issueInTurn(turns, [](size_t) {});
        });
  }
  std::unique_ptr<Instruction> prepareDraw(Preparation &,
                                           const plan::DrawT &) override {
    return nullptr;
  }
  double readNumber(const at::Tensor &tensor) override {
    at::Tensor here = at::empty({}, tensor.scalar_type());
    far.read(here.mutable_data_ptr(),
             static_cast<const char *>(tensor.const_data_ptr()), here.nbytes());
    return here.item<double>();
  }

private:
  FarActivities &all;
  FarMemory far;
  DeviceFabric connection;
};

} // namespace

std::string fsdp::test::launchFar(const LaunchOptions &options,
                                  const std::function<void(Session &)> &body) {
  PlanFile plan = PlanFile::read(options.artifact);
  int world = 1;
  for (const auto &axis : plan.plan().mesh)
    world *= static_cast<int>(axis->size);
  auto fabrics = makeLocalFabrics(world, std::chrono::seconds(30));
  auto device = std::make_shared<SimulatedDevice>(/*isLate=*/false);
  FarActivities activities;
  SessionOptions session;
  session.artifactFolder =
      std::filesystem::path(options.artifact).parent_path().string();
  session.modelPath = options.session.modelPath;
  session.dataPath = options.session.dataPath;
  session.seed = options.session.seed;
  session.poison = options.session.poison;
  session.steps = options.session.steps;
  session.checkpointPath = options.session.checkpointPath;
  session.isInProcess = true;
  session.makeDevice = [&](Fabric &fabric) {
    return std::make_unique<FarDevice>(fabric, device, activities);
  };
  std::mutex mutex;
  std::string first;
  std::vector<std::thread> threads;
  for (auto &fabric : fabrics)
    threads.emplace_back([&] {
      try {
        Session own(plan, *fabric, session);
        try {
          body(own);
        } catch (const std::exception &error) {
          // As `launch` does, before the session ends.
          own.fabric().abort(error.what());
          throw;
        }
      } catch (const std::exception &error) {
        std::lock_guard lock(mutex);
        if (first.empty())
          first = error.what();
        fabric->abort(error.what());
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  return first;
}
