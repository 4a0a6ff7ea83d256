//===- FarLaunch.cpp - Runs on devices that the host plays ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "FarDevice.h"

#include "FakeDriver.h"
#include "runtime/comm/local/Local.h"
#include "runtime/profile/Recorder.h"

#include <filesystem>
#include <mutex>
#include <thread>

using namespace fsdp;
using namespace fsdp::test;

namespace {

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

} // namespace

int fsdp::test::worldSizeOf(const plan::PlanT &plan) {
  int world = 1;
  for (const auto &axis : plan.mesh)
    world *= static_cast<int>(axis->size);
  return world;
}

void fsdp::test::addTo(FarReport &report, const SimulatedDevice &device) {
  for (const std::string &race : device.races())
    report.races.push_back(race);
  report.compared += device.compared();
  report.launches += device.launchCount();
  report.waits += device.waitCount();
  report.syncs += device.syncCount();
  report.kernels += device.kernelCount();
}

std::string
fsdp::test::runFarRanks(const LaunchOptions &launch, const PlanFile &plan,
                        FarOptions options,
                        const std::function<FarRank(int)> &connect,
                        const std::function<void(Session &)> &body,
                        const std::function<void(const std::string &)> &fail) {
  if (!options.activities)
    options.activities = std::make_shared<FarActivities>();
  for (const auto &program : plan.plan().kernels)
    FakeDriver::teach(*program, kFarCapability);
  SessionOptions session;
  session.artifactFolder =
      std::filesystem::path(launch.artifact).parent_path().string();
  session.modelPath = launch.session.modelPath;
  session.dataPath = launch.session.dataPath;
  session.seed = launch.session.seed;
  session.poison = launch.session.poison;
  session.steps = launch.session.steps;
  session.checkpointPath = launch.session.checkpointPath;
  session.evalDataPath = launch.session.evalDataPath;
  session.program = launch.session.program;
  session.isInProcess = true;
  std::mutex mutex;
  std::string first;
  auto runRank = [&](int rank) {
    Fabric *fabric = nullptr;
    try {
      FarRank own = connect(rank);
      fabric = own.fabric;
      SessionOptions mine = session;
      mine.makeDevice = [&](Fabric &given) {
        return makeFarDevice(given, own.device, options);
      };
      Session made(plan, *fabric, mine);
      try {
        body(made);
      } catch (const std::exception &error) {
        // As `launch` does, before the session ends.
        made.fabric().abort(error.what());
        throw;
      }
    } catch (const std::exception &error) {
      {
        std::lock_guard lock(mutex);
        if (first.empty())
          first = error.what();
      }
      if (fail)
        fail(error.what());
      if (fabric)
        fabric->abort(error.what());
    }
  };
  std::vector<std::thread> threads;
  for (int rank = 0; rank < worldSizeOf(plan.plan()); ++rank)
    threads.emplace_back(runRank, rank);
  for (std::thread &thread : threads)
    thread.join();
  return first;
}

FarReport
fsdp::test::launchFar(const LaunchOptions &launch, FarOptions options,
                      const std::function<void(Session &)> &body,
                      const std::function<void(plan::PlanT &)> &change) {
  PlanFile plan = PlanFile::read(launch.artifact);
  if (change)
    change(const_cast<plan::PlanT &>(plan.plan()));
  auto fabrics = makeLocalFabrics(worldSizeOf(plan.plan()), kFarPatience);
  auto device = std::make_shared<SimulatedDevice>(options.lateness);
  device->plant(options.fault);
  if (options.judges)
    device->keepOrder();
  FarReport report;
  report.error = runFarRanks(
      launch, plan, options,
      [&](int rank) { return FarRank{fabrics[rank].get(), device}; }, body);
  addTo(report, *device);
  if (options.judges && options.fault.kind == PlantedFault::Kind::none)
    report.needs = device->judgeWaits();
  if (options.judges)
    report.planted = device->judgePlanted();
  return report;
}

std::string fsdp::test::launchFar(const LaunchOptions &options,
                                  const std::function<void(Session &)> &body) {
  return launchFar(options, FarOptions(), body).error;
}
