//===- GpuCalibrate.cpp - fsdp-run --calibrate on GPUs --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/calibrate/GpuCalibrate.h"

#include "runtime/calibrate/GpuCases.h"
#include "runtime/comm/backends/Backends.h"
#include "runtime/comm/processes/Rendezvous.h"
#include "runtime/launch/Threads.h"
#include "runtime/session/CudaLibrary.h"
#include "runtime/session/CudaLoader.h"
#include "support/AtomicFile.h"
#include "support/Error.h"

#include <c10/core/InferenceMode.h>

#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

using namespace fsdp;

void fsdp::calibrateGpus(const CalibrateOptions &options) {
  if (options.ranks != 0)
    throw Error(ErrorId::BadUsage,
                "--nproc is for ranks that are threads; of GPUs, those count "
                "whose processes the launcher starts");
  const CudaLibrary *library = loadCudaLibrary();
  if (!library)
    throw Error(ErrorId::RuntimeUnsupported,
                "--calibrate of GPUs (--backend=nccl) needs a build with them; "
                "build fsdp-run with -DFSDP_CUDA=ON, or measure the host with "
                "--backend=local or gloo");
  std::optional<LauncherInfo> launcher = readLauncher();
  std::shared_ptr<Streams> streams =
      library->makeStreams(launcher ? launcher->localRank : -1);
  std::unique_ptr<Fabric> fabric;
  if (launcher && launcher->worldSize > 1) {
    FabricOptions connection;
    connection.deadline = options.deadline;
    connection.rendezvous = options.rendezvous;
    connection.worldSize = launcher->worldSize;
    connection.streams = streams;
    fabric = std::move(findBackend("nccl").connect(connection)[0]);
    std::string host = findRoom(0).host;
    for (const std::string &each : fabric->exchange("hosts", host))
      if (each != host)
        throw Error(ErrorId::BadUsage,
                    "--calibrate measures one machine, found ranks on several; "
                    "start it on one of them");
  }
  c10::InferenceMode guard;
  bool isFirst = !fabric || fabric->rank() == 0;
  std::unique_ptr<Bench> bench = library->makeBench(streams, fabric.get());
  GpuMeasurements measured = measureGpu(*bench, [&](const std::string &what) {
    if (isFirst)
      std::cerr << "calibrate: " << what << std::endl;
  });
  if (!isFirst)
    return;
  writeFileAtomically(options.path, printGpuCluster(measured));
  std::cerr << "calibrate: wrote " << options.path << std::endl;
}
