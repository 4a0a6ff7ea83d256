//===- Launch.cpp - Run an artifact on all of its ranks -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/launch/Launch.h"

#include "plan/Target.h"
#include "plan/Worlds.h"
#include "runtime/comm/backends/Backends.h"
#include "runtime/comm/processes/Rendezvous.h"
#include "runtime/exec/Device.h"
#include "runtime/exec/Matmul.h"
#include "runtime/flights/FlightRecorder.h"
#include "runtime/launch/Termination.h"
#include "runtime/launch/Threads.h"
#include "runtime/log/Log.h"
#include "runtime/session/Devices.h"
#include "runtime/session/RunOption.h"
#include "support/Error.h"
#include "support/Exceptions.h"

#include <ATen/Parallel.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tanh.h>
#include <c10/core/InferenceMode.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <new>
#include <optional>
#include <thread>
#include <vector>

using namespace fsdp;

namespace {

/// The errors of this process's ranks, of which one caused the others.
class Failures {
public:
  void add(Error error) {
    std::lock_guard lock(mutex);
    // Exit status 3 says that a peer failed: an effect, if there is any other.
    bool isEffect = error.exitStatus() == 3;
    if (!first || (firstIsEffect && !isEffect)) {
      first.emplace(std::move(error));
      firstIsEffect = isEffect;
    }
  }
  /// `records`: where the flight records are; may be empty.
  void rethrow(const std::string &records) const {
    if (!first)
      return;
    if (!firstIsEffect || records.empty())
      throw *first;
    throw Error(first->id(), std::string(first->what()) +
                                 "; which rank is behind, and where, says "
                                 "fsdp-run --compare-records=" +
                                 records);
  }

private:
  std::mutex mutex;
  std::optional<Error> first;
  bool firstIsEffect = false;
};

/// Any exception of a rank as one of ours.
Error toError(int rank, const std::exception_ptr &exception) {
  return fsdp::toError(exception, "rank " + std::to_string(rank) + ": ",
                       ErrorId::KernelFailed);
}

/// torchrun's summary names the rank whose file has the earliest time.
void reportToElastic(const Error &error) {
  const char *path = std::getenv("TORCHELASTIC_ERROR_FILE");
  if (!path)
    return;
  nlohmann::json extra{{"py_callstack", ""},
                       {"timestamp", std::to_string(std::time(nullptr))}};
  nlohmann::json report{
      {"message", {{"message", error.format()}, {"extraInfo", extra}}}};
  std::ofstream stream(path);
  stream << report.dump();
  if (!stream.flush())
    log(LogLevel::warning, "TORCHELASTIC_ERROR_FILE '" + std::string(path) +
                               "' cannot be written");
}

/// Bits that are the same on any number of ranks need as many threads on each,
/// whatever machine they share.
int countAsked(const plan::PlanT &plan, const LaunchOptions &launch) {
  bool isAnyOf = launch.threads > 0 || std::getenv("OMP_NUM_THREADS");
  return plan.training->grains && !isAnyOf ? 1 : launch.threads;
}

void runRank(const PlanFile &plan, Fabric &fabric,
             const SessionOptions &options, const LaunchOptions &launch,
             bool isAlone, const std::function<void(Session &)> &body,
             FlightRecorder *recorder, Failures &failures) {
  try {
    RankThreads threads = agreeOnThreads(
        fabric, countAsked(plan.plan(), launch), launch.pin, isAlone);
    // Before this thread needs OpenMP's others, which stay where it is.
    std::optional<PinnedThread> pinned;
    if (!threads.processors.empty())
      pinned.emplace(threads.processors);
    at::set_num_threads(threads.count);
    if (launch.check)
      launch.check(fabric.rank());
    Session session(plan, fabric, options);
    try {
      body(session);
    } catch (...) {
      // Before the session ends, whose unfinished transfers would else be what
      // the peers take for the cause.
      Error error = toError(fabric.rank(), std::current_exception());
      session.fabric().abort(error.what());
      if (recorder)
        recorder->write(error);
      throw;
    }
  } catch (...) {
    Error error = toError(fabric.rank(), std::current_exception());
    fabric.abort(error.what());
    if (recorder)
      recorder->write(error);
    failures.add(std::move(error));
  }
}

void callKernels() {
  c10::InferenceMode guard;
  for (c10::ScalarType type : {c10::kFloat, c10::kDouble}) {
    at::Tensor square = at::ones({16, 16}, type);
    at::tanh(at::mm(square, square));
  }
}

/// The math library behind LibTorch chooses its kernels for this processor when
/// it is first called. Threads that are the first to call at the same moment
/// may get different ones, and with them results that differ in the last bits
/// from run to run. On a thread that ends: OpenMP's threads, which come with
/// the first call, would else be there before rank 0's are pinned.
void settleKernels() {
  std::exception_ptr failure;
  std::thread([&] {
    try {
      callKernels();
    } catch (...) {
      failure = std::current_exception();
    }
  }).join();
  if (failure)
    std::rethrow_exception(failure);
}

void addFacts(std::vector<RunFact> &facts, LaunchOptions options) {
  LaunchOptions unset;
#define FSDP_LAUNCH_OPTION(name, member, value, agreed, ...)                   \
  addFact(facts, name, pointTo(options.member), pointTo(unset.member),         \
          Agreed::agreed);
#include "runtime/session/RunOptions.def"
}

/// Of several plans, the one for the ranks that are there.
PlanFile choosePlan(const LaunchOptions &options,
                    const std::optional<LauncherInfo> &launcher) {
  WorldPlans plans = readPlans(options);
  std::optional<uint64_t> world = options.world;
  bool isProcess = launcher && (options.backend.empty() ||
                                !findBackend(options.backend).inProcess);
  if (!world && isProcess && options.backend != "fake" &&
      plans.worlds().size() > 1)
    world = launcher->worldSize;
  return plans.take(world);
}

const Backend &chooseBackend(const LaunchOptions &options,
                             const plan::PlanT &plan,
                             const std::optional<LauncherInfo> &launcher) {
  const Backend &backend =
      findBackend(!options.backend.empty() ? options.backend
                  : !launcher              ? "local"
                  : isForHost(plan)        ? "gloo"
                                           : "nccl");
  if (backend.inProcess && launcher && launcher->worldSize > 1)
    throw Error(ErrorId::BadUsage,
                "back end '" + std::string(backend.name) +
                    "' runs all ranks in one process, and a launcher started " +
                    std::to_string(launcher->worldSize) +
                    " processes; start one, or use --backend=gloo");
  if (backend.name == "nccl" && isForHost(plan))
    throwMovesGpuMemory();
  return backend;
}

FabricOptions makeFabricOptions(const LaunchOptions &options,
                                const Backend &backend, const plan::PlanT &plan,
                                const std::optional<LauncherInfo> &launcher) {
  FabricOptions fabric;
  fabric.worldSize = static_cast<int>(getWorldSize(plan));
  fabric.deadline = options.deadline;
  fabric.rendezvous = options.rendezvous;
  fabric.note = [](const std::string &note) { log(LogLevel::info, note); };
  // Threads of one process make theirs themselves.
  if (!backend.inProcess && !isForHost(plan))
    fabric.streams = makeStreams(plan, launcher ? launcher->localRank : -1);
  if (options.signals)
    fabric.isCancelled = TerminationSignals::endsStart;
  return fabric;
}

/// What the ranks' meeting decides is filled in.
SessionOptions settleSession(const LaunchOptions &options,
                             const Backend &backend, bool isAlone,
                             const FabricOptions &fabric) {
  SessionOptions session = options.session;
  session.artifactFolder =
      std::filesystem::path(options.artifact).parent_path().string();
  session.allowMissingValues = isAlone;
  session.isInProcess = backend.inProcess;
  session.device.streams = fabric.streams;
  session.device.deadline = options.deadline;
  addFacts(session.agreed, options);
  return session;
}

/// Calls `run` with each number of a rank of this process, on threads but for
/// the first.
void runRanks(const std::vector<std::unique_ptr<Fabric>> &fabrics,
              Failures &failures, const std::function<void(size_t)> &run) {
  if (fabrics.size() > 1)
    settleKernels();
  std::vector<std::thread> workers;
  try {
    workers.reserve(fabrics.size());
    for (size_t i = 1; i < fabrics.size(); ++i)
      workers.emplace_back(run, i);
    run(0);
  } catch (...) {
    // Those that were started wait for those that were not.
    size_t rank = std::min(workers.size() + 1, fabrics.size() - 1);
    Error error = toError(static_cast<int>(rank), std::current_exception());
    fabrics[rank]->abort(error.what());
    failures.add(std::move(error));
  }
  for (std::thread &worker : workers)
    worker.join();
}

void launchChecked(const LaunchOptions &options,
                   const std::function<void(Session &)> &body) {
  std::optional<LauncherInfo> launcher = readLauncher();
  PlanFile plan = choosePlan(options, launcher);
  const Backend &backend = chooseBackend(options, plan.plan(), launcher);
  if (backend.prepare)
    backend.prepare();      // CUDA and LibTorch start threads
  checkDevice(plan.plan()); // loads CUDA before LibTorch is asked for it
  setMatmulLibrary(options.matmul);
  FabricOptions fabricOptions =
      makeFabricOptions(options, backend, plan.plan(), launcher);
  bool isAlone = backend.name == "fake";
  bool isWritten = !isAlone && options.flightRecords != "none";
  // Outlives what it records.
  std::optional<FlightRecorder> recorder;
  std::vector<std::unique_ptr<Fabric>> fabrics = backend.connect(fabricOptions);
  std::vector<std::shared_ptr<void>> failuresHeard;
  if (!options.isUnrecorded) {
    try {
      recorder.emplace(plan, std::string(backend.name),
                       isWritten ? options.flightRecords : "",
                       backend.inProcess || isAlone, fabrics);
    } catch (const Error &error) {
      fabrics.front()->abort(error.what());
      throw;
    }
    failuresHeard = recorder->watch(fabrics);
  }
  std::shared_ptr<void> watched;
  if (options.signals)
    watched = options.signals->watch(fabrics);
  SessionOptions session =
      settleSession(options, backend, isAlone, fabricOptions);
  Failures failures;
  runRanks(fabrics, failures, [&](size_t rank) {
    runRank(plan, *fabrics[rank], session, options, isAlone, body,
            recorder ? &*recorder : nullptr, failures);
  });
  failures.rethrow(recorder ? recorder->writtenTo() : "");
}

} // namespace

WorldPlans fsdp::readPlans(const LaunchOptions &options) {
  return WorldPlans::read(options.artifact,
                          options.isTrusted ? Trust::own : Trust::stranger);
}

void fsdp::launch(const LaunchOptions &options,
                  const std::function<void(Session &)> &body) {
  try {
    launchChecked(options, body);
  } catch (const Error &error) {
    reportToElastic(error);
    throw;
  }
}
