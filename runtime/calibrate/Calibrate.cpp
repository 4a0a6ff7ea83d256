//===- Calibrate.cpp - fsdp-run --calibrate -------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/calibrate/Calibrate.h"

#include "runtime/calibrate/Cases.h"
#include "runtime/calibrate/ClusterText.h"
#include "runtime/calibrate/GpuCalibrate.h"
#include "runtime/comm/backends/Backends.h"
#include "runtime/comm/processes/Rendezvous.h"
#include "runtime/exec/Matmul.h"
#include "runtime/launch/Threads.h"
#include "support/AtomicFile.h"
#include "support/Error.h"
#include "support/Exceptions.h"
#include "support/Processor.h"

#include <ATen/Parallel.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <c10/core/InferenceMode.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <limits>
#include <mutex>
#include <set>
#include <thread>

#include <malloc.h>
#include <unistd.h>

using namespace fsdp;

namespace {

/// One rank's part.
class Calibration {
public:
  Calibration(Fabric &fabric, const CalibrateOptions &options,
              std::string backend);
  void run();

private:
  void measure(int ranks);
  std::vector<Measured> average(int ranks, std::vector<Measured> own);
  MachineFacts describeMachine() const;
  int threadsOf(int ranks) const;
  int cores() const { return int(room.processors.size()); }

  Fabric &fabric;
  const CalibrateOptions &options;
  const std::string backend;
  const RankRoom room;
  uint64_t reserved = 0;
  std::map<int, std::vector<Measured>> byRanks; ///< on rank 0
};

/// "Name:   12 kB" of a file of the kernel's, in bytes.
uint64_t readKilobytes(const char *path, const std::string &name) {
  std::ifstream stream(path);
  for (std::string line; std::getline(stream, line);)
    if (line.starts_with(name + ":"))
      return std::strtoull(line.c_str() + name.size() + 1, nullptr, 10) << 10;
  return 0;
}

std::string describeProcessor() {
  std::string name = getProcessorName();
  std::erase(name, '\'');
  return name.empty() ? "a processor" : name;
}

} // namespace

Calibration::Calibration(Fabric &fabric, const CalibrateOptions &options,
                         std::string backend)
    : fabric(fabric), options(options), backend(std::move(backend)),
      room(findRoom(options.threads)) {}

int Calibration::threadsOf(int ranks) const {
  return room.asked > 0 ? room.asked : std::max(1, cores() / ranks);
}

MachineFacts Calibration::describeMachine() const {
  MachineFacts facts;
  facts.backend = backend;
  facts.processor = describeProcessor();
  facts.threads = room.asked > 0
                      ? "with " + std::to_string(room.asked) + " threads each"
                      : "with the cores divided among them";
  facts.cores = cores();
  facts.memory = readKilobytes("/proc/meminfo", "MemTotal");
  facts.reserved = reserved;
  return facts;
}

std::vector<Measured> Calibration::average(int ranks,
                                           std::vector<Measured> own) {
  nlohmann::json values = nlohmann::json::array();
  for (const Measured &each : own)
    values.push_back(each.value);
  std::vector<std::string> all =
      fabric.exchange("calibrate " + std::to_string(ranks), values.dump());
  if (fabric.rank() != 0)
    return {};
  for (size_t i = 0; i < own.size(); ++i) {
    std::vector<double> each;
    for (int rank = 0; rank < ranks; ++rank)
      each.push_back(nlohmann::json::parse(all[size_t(rank)])[i].get<double>());
    own[i].value = 0;
    for (double value : each)
      own[i].value += value / double(ranks);
  }
  return own;
}

void Calibration::measure(int ranks) {
  std::vector<Measured> results;
  if (fabric.rank() < ranks) {
    at::set_num_threads(threadsOf(ranks));
    Crew crew(fabric, ranks);
    // Ranks that take turns on cores are slower by how many they are.
    if (ranks <= cores()) {
      measureProducts(crew, results);
      measureOperators(crew, results);
    }
    if (ranks > 1)
      measureCollectives(crew, results);
    crew.meet();
  }
  byRanks[ranks] = average(ranks, std::move(results));
}

void Calibration::run() {
  c10::InferenceMode guard;
  for (const std::string &host : fabric.exchange("hosts", room.host))
    if (host != room.host)
      throw Error(ErrorId::BadUsage,
                  "--calibrate measures one machine, found ranks on several; "
                  "start it on one of them");
  at::mm(at::ones({64, 64}), at::ones({64, 64}));
  reserved = readKilobytes("/proc/self/status", "VmRSS");
  int world = fabric.worldSize();
  std::set<int> numbers = {1, world};
  for (int ranks = 2; ranks < world; ranks = ranks < 4 ? ranks + 1 : 2 * ranks)
    numbers.insert(ranks);
  for (int ranks : numbers)
    measure(ranks);
  if (fabric.rank() != 0)
    return;
  writeFileAtomically(options.path, printCluster(describeMachine(), byRanks));
  std::cerr << "calibrate: wrote " << options.path << std::endl;
}

/// Ranks of this process, each on a thread; rethrows the first error.
static void runRanks(const std::vector<std::unique_ptr<Fabric>> &fabrics,
                     const CalibrateOptions &options,
                     const std::string &backend) {
  std::mutex mutex;
  std::exception_ptr failure;
  auto rank = [&](Fabric &fabric) {
    try {
      Calibration(fabric, options, backend).run();
    } catch (...) {
      fabric.abort(
          toError(std::current_exception(), "", ErrorId::KernelFailed).what());
      std::lock_guard lock(mutex);
      if (!failure)
        failure = std::current_exception();
    }
  };
  std::vector<std::thread> threads;
  for (size_t i = 1; i < fabrics.size(); ++i)
    threads.emplace_back([&, i] { rank(*fabrics[i]); });
  rank(*fabrics[0]);
  for (std::thread &thread : threads)
    thread.join();
  if (failure)
    std::rethrow_exception(failure);
}

void fsdp::calibrate(const CalibrateOptions &options) {
  std::optional<LauncherInfo> launcher = readLauncher();
  const Backend &backend =
      findBackend(!options.backend.empty() ? options.backend
                  : launcher               ? "gloo"
                                           : "local");
  if (backend.name == "nccl")
    return calibrateGpus(options);
  if (backend.name != "local" && backend.name != "gloo")
    throw Error(ErrorId::RuntimeUnsupported,
                "--calibrate measures ranks of a host, local or gloo, or GPUs, "
                "nccl; found --backend=" +
                    std::string(backend.name));
  if (backend.inProcess && launcher && launcher->worldSize > 1)
    throw Error(ErrorId::BadUsage,
                "--calibrate with --backend=local starts its ranks itself, and "
                "a launcher started " +
                    std::to_string(launcher->worldSize) +
                    " processes; start one, or use --backend=gloo");
  if (!backend.inProcess && options.ranks != 0)
    throw Error(ErrorId::BadUsage,
                "--nproc is for ranks that are threads; of processes, those "
                "count that the launcher starts");
  // Freed memory stays, so that kernels do not wait for the system's pages, as
  // those of a step do not.
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
  setMatmulLibrary(options.matmul);
  FabricOptions fabric;
  fabric.deadline = options.deadline;
  fabric.rendezvous = options.rendezvous;
  int most = int(findRoom(0).processors.size());
  fabric.worldSize = !backend.inProcess   ? (launcher ? launcher->worldSize : 1)
                     : options.ranks != 0 ? options.ranks
                                          : std::max(2, most);
  if (fabric.worldSize < 2)
    throw Error(ErrorId::BadUsage,
                "--calibrate measures transfers, too, and needs two ranks or "
                "more; start it as runs are, such as: torchrun --no-python "
                "--nproc-per-node=2 fsdp-run --calibrate=FILE.yaml");
  runRanks(backend.connect(fabric), options, std::string(backend.name));
}
