//===- Device.cpp - A rank on a CUDA device -------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/cuda/Device.h"

#include "plan/Quantized.h"
#include "plan/Target.h"
#include "runtime/comm/one_device/DeviceFabric.h"
#include "runtime/cuda/Cupti.h"
#include "runtime/cuda/DeviceAllocator.h"
#include "runtime/cuda/Driver.h"
#include "runtime/cuda/Graphs.h"
#include "runtime/cuda/Kernels.h"
#include "runtime/cuda/Memory.h"
#include "runtime/cuda/Streams.h"
#include "runtime/cuda/UpdateTables.h"
#include "runtime/cuda/Workspaces.h"
#include "runtime/device/NumberReader.h"
#include "runtime/device/StreamAheadWriter.h"
#include "runtime/device/StreamCopies.h"
#include "runtime/exec/CaptureAgreement.h"
#include "runtime/exec/Executor.h"
#include "runtime/exec/StepGraphs.h"
#include "runtime/kernels/GpuKernels.h"
#include "runtime/log/Log.h"
#include "support/Error.h"
#include "support/Format.h"

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <charconv>
#include <optional>

using namespace fsdp;

namespace {

/// An instruction that is one of our kernels, which is told `T`.
template <typename T>
class OwnKernel final : public Instruction {
public:
  using Launch = void (*)(const T &, StreamHandle);

  OwnKernel(Launch launch, T told, StreamHandle stream)
      : launch(launch), told(std::move(told)), stream(stream) {}
  void run(StepState &) override { launch(told, stream); }
  void rehearse(StepState &state) override { run(state); }

private:
  const Launch launch;
  const T told;
  const StreamHandle stream;
};

class CudaDevice final : public Device {
public:
  CudaDevice(Fabric &fabric, std::shared_ptr<Streams> streams,
             const DeviceOptions &options);
  ~CudaDevice() override {
    releaseWorkspaces(streams->compute());
    c10::cuda::setCurrentCUDAStream(before);
  }

  c10::Device torch() const override {
    return {c10::kCUDA, static_cast<c10::DeviceIndex>(streams->device())};
  }
  Memory &memory() override { return cudaMemory; }
  Fabric &fabric() override {
    return own ? static_cast<Fabric &>(*own) : connection;
  }

  Memory &besideMemory(bool isPinned) override {
    return isPinned ? static_cast<Memory &>(pinnedMemory) : hostMemory();
  }
  std::unique_ptr<Copies> makeCopies() override {
    return std::make_unique<StreamCopies>(streams, patience);
  }

  void rehearse(Executor &executor) override;
  void run(Executor &executor, uint64_t step,
           ProfileRecorder *recorder) override;
  DeviceActivities *activities() override;
  void settle() override;
  std::unique_ptr<AheadWriter> makeAheadWriter() override {
    return std::make_unique<StreamAheadWriter>(streams, pinnedMemory,
                                               cudaMemory);
  }
  void finish() noexcept override { graphs.clear(); }
  uint64_t workspaceBytes() const override { return workspaces; }
  bool checksIndices() const override { return looksAtIndices; }

  std::unique_ptr<Instruction> prepareDraw(Preparation &p,
                                           const plan::DrawT &op) override;
  std::unique_ptr<Instruction>
  prepareDequantize(Preparation &p, const plan::DequantizeT &op) override;
  std::unique_ptr<Instruction>
  prepareSumParts(Preparation &p, const plan::SumPartsT &op) override;
  std::unique_ptr<Instruction> prepareUpdate(Preparation &p,
                                             const plan::UpdateT &op) override {
    return makeUpdateOnDevice(makePreparedUpdate(p, op), cudaMemory,
                              streams->compute());
  }
  std::unique_ptr<Instruction>
  prepareMaxima(Preparation &p, const plan::BlockMaximaT &op) override {
    return makeUpdateOnDevice(makePreparedUpdate(p, op), cudaMemory,
                              streams->compute());
  }
  GpuKernels *kernels() override;
  StreamHandle computeStream() override { return streams->compute(); }
  double readNumber(const at::Tensor &tensor) override {
    return numbers.read({&tensor, 1})[0];
  }
  std::vector<double>
  readNumbers(std::span<const at::Tensor> tensors) override {
    return numbers.read(tensors);
  }

private:
  DeviceTask taskOf(Executor &executor, uint64_t step,
                    ProfileRecorder *recorder = nullptr) {
    return {streams.get(), &executor, step, recorder};
  }
  /// Calls `lead` with all ranks' tasks, on one thread.
  void together(DeviceTask task,
                const std::function<void(std::span<DeviceTask *const>)> &lead);

  Fabric &connection;
  const std::shared_ptr<Streams> streams;
  const c10::cuda::CUDAStream stream; ///< where kernels run
  const c10::cuda::CUDAStream before; ///< the thread's own
  const std::chrono::milliseconds patience;
  const bool looksAtIndices;
  CudaMemory cudaMemory;
  PinnedMemory pinnedMemory;
  std::optional<DeviceFabric> own; ///< where ranks share the device
  StepGraphs graphs;               ///< rank 0's, of all that share the device
  uint64_t workspaces = 0;
  size_t freeBefore = 0; ///< bytes of the device, when rehearsals began
  NumberReader numbers;
  std::optional<GpuKernels> ownKernels; ///< once they were asked for
};

/// How long the host waits for all that it put on the device. Transfers among
/// processes are looked after by the fabric, which names the one that hangs,
/// and the ranks that it waits for: it is to come first.
std::chrono::milliseconds patienceOf(const DeviceOptions &options,
                                     Fabric &fabric) {
  bool isWatched = fabric.streams() && fabric.worldSize() > 1;
  return isWatched ? 2 * options.deadline + std::chrono::seconds(10)
                   : options.deadline;
}

CudaDevice::CudaDevice(Fabric &fabric, std::shared_ptr<Streams> onDevice,
                       const DeviceOptions &options)
    : connection(fabric), streams(std::move(onDevice)),
      stream(c10::cuda::getStreamFromExternal(
          streams->compute(),
          static_cast<c10::DeviceIndex>(streams->device()))),
      before(c10::cuda::getCurrentCUDAStream(stream.device_index())),
      patience(patienceOf(options, fabric)),
      looksAtIndices(options.checksIndices),
      cudaMemory(
          streams, {[this] { connection.check(); }, patience},
          [this](size_t bytes) { return connection.allocateArena(bytes); }),
      pinnedMemory(streams),
      graphs(options.cudaGraph,
             std::make_unique<CudaGraphRecorder>(streams->device()),
             {[this](const std::string &program, const std::string &reason) {
                // Ranks that share the device are captured as one.
                return own ? reason
                           : agreeOnCapture(connection, program, reason);
              },
              [this] { cudaMemory.synchronize(); }}),
      numbers(streams, pinnedMemory, cudaMemory) {
  // Of this rank's thread, for what it does itself: constants, results.
  streams->use();
  c10::cuda::setCurrentCUDAStream(stream);
  installDeviceAllocator();
  if (!fabric.streams() || fabric.worldSize() == 1)
    own.emplace(fabric, streams, &reduceOnDevice, options.deadline);
}

void CudaDevice::together(
    DeviceTask task,
    const std::function<void(std::span<DeviceTask *const>)> &lead) {
  auto all = [&](std::span<void *const> tasks) {
    std::vector<DeviceTask *> each;
    for (void *one : tasks)
      each.push_back(static_cast<DeviceTask *>(one));
    lead(each);
  };
  if (own) {
    own->sharedDevice()->together(connection.rank(), &task, all);
  } else {
    void *mine = &task;
    all({&mine, 1});
  }
}

void CudaDevice::rehearse(Executor &executor) {
  if (workspaces == 0) {
    workspaces = workspaceBytesOfStream();
    freeBefore = streams->freeMemory();
  }
  together(
      taskOf(executor, /*step=*/0), [this](std::span<DeviceTask *const> tasks) {
        graphs.expect(tasks);
        for (DeviceTask *task : tasks) {
          c10::cuda::CUDAStreamGuard guard(c10::cuda::getStreamFromExternal(
              task->streams->compute(),
              static_cast<c10::DeviceIndex>(task->streams->device())));
          placeWorkspaces();
          task->executor->rehearse();
        }
      });
}

void CudaDevice::run(Executor &executor, uint64_t step,
                     ProfileRecorder *recorder) {
  together(taskOf(executor, step, recorder),
           [this](std::span<DeviceTask *const> tasks) { graphs.run(tasks); });
}

DeviceActivities *CudaDevice::activities() {
  // Ranks that are threads are listed together. Never destroyed: CUPTI's own
  // threads may outlive static objects.
  static DeviceActivities *only =
      makeCuptiActivities(loadCupti(), [] {
        checkCuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
      }).release();
  return only;
}

void CudaDevice::settle() {
  cudaMemory.synchronize();
  // What observed calls took is not needed again.
  c10::cuda::CUDACachingAllocator::emptyCache();
  if (size_t now = streams->freeMemory(); now < freeBefore)
    log(LogLevel::info,
        "libraries hold " + formatBytes(freeBefore - now) +
            " of the device's memory since the warm-up run, beside the plan: "
            "the code of kernels, handles, and " +
            formatBytes(workspaces) + " to work in");
}

std::unique_ptr<Instruction> CudaDevice::prepareDraw(Preparation &p,
                                                     const plan::DrawT &op) {
  const at::Tensor &output = p.values[op.output];
  DeviceDraw draw{op.distribution,
                  op.numbers,
                  op.range,
                  p.values[op.random].data_ptr<int64_t>(),
                  static_cast<int>(getDataRank(p.plan, p.rank)),
                  op.site,
                  output.mutable_data_ptr(),
                  static_cast<size_t>(output.numel()),
                  p.program.values[op.output]->dtype};
  if (!canDrawOnDevice(draw))
    return nullptr;
  return std::make_unique<OwnKernel<DeviceDraw>>(drawOnDevice, std::move(draw),
                                                 streams->compute());
}

std::unique_ptr<Instruction>
CudaDevice::prepareDequantize(Preparation &p, const plan::DequantizeT &op) {
  const at::Tensor &output = p.values[op.output];
  return std::make_unique<OwnKernel<DeviceDequantize>>(
      dequantizeOnDevice,
      DeviceDequantize{toBlockForm(op), p.values[op.input].const_data_ptr(),
                       output.mutable_data_ptr(),
                       static_cast<size_t>(output.numel()),
                       p.program.values[op.output]->dtype},
      streams->compute());
}

std::unique_ptr<Instruction>
CudaDevice::prepareSumParts(Preparation &p, const plan::SumPartsT &op) {
  const at::Tensor &sum = p.values[op.output];
  return std::make_unique<OwnKernel<DeviceParts>>(
      sumPartsOnDevice,
      DeviceParts{p.values[op.input].const_data_ptr(), sum.mutable_data_ptr(),
                  static_cast<size_t>(sum.numel()), static_cast<int>(op.parts),
                  p.program.values[op.input]->dtype, op.pre, op.post},
      streams->compute());
}

/// 90 of "cuda:sm_90"; nothing of a name without one.
std::optional<int> capabilityOf(std::string_view name) {
  constexpr std::string_view prefix = "cuda:sm_";
  if (!name.starts_with(prefix))
    return std::nullopt;
  name.remove_prefix(prefix.size());
  int capability = 0;
  auto [end, error] =
      std::from_chars(name.data(), name.data() + name.size(), capability);
  if (error != std::errc() || end != name.data() + name.size())
    return std::nullopt;
  return capability;
}

/// 90 of 9.0.
int capabilityOfDevice(int device) {
  int major = 0, minor = 0;
  checkCuda(
      cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device),
      "cudaDeviceGetAttribute");
  checkCuda(
      cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device),
      "cudaDeviceGetAttribute");
  return 10 * major + minor;
}

GpuKernels *CudaDevice::kernels() {
  if (!ownKernels)
    ownKernels.emplace(loadDriver(), streams->device(),
                       capabilityOfDevice(streams->device()));
  return &*ownKernels;
}

/// The kernels were chosen for the plan's device, and what it can do a newer
/// one can.
void checkCapability(const std::string &name, int device) {
  int found = capabilityOfDevice(device);
  if (found < capabilityOf(name).value_or(0))
    throw Error(ErrorId::RuntimeUnsupported,
                "the artifact is for device '" + name +
                    "', and this GPU is an sm_" + std::to_string(found) +
                    ": compile with cuda_arch: sm_" + std::to_string(found));
}

} // namespace

void fsdp::checkCudaDevice(const std::string &name) {
  const char *reason = nullptr;
  if (name != "cuda" && !capabilityOf(name))
    throw Error(ErrorId::RuntimeUnsupported,
                "the artifact is for device '" + name +
                    "'; expected cpu, or a GPU such as cuda:sm_90");
  if (countCudaDevices(&reason) == 0)
    throw Error(ErrorId::RuntimeUnsupported,
                "the artifact is for device '" + name +
                    "', and this machine has no GPU to use: " + reason +
                    "; compile with device: cpu, or run on a machine with one");
}

std::shared_ptr<Streams> fsdp::makeStreamsOfRank(int localRank) {
  // A launcher may show each process its own device alone.
  bool isFirst = localRank < 0 || countCudaDevices() == 1;
  return makeCudaStreams(isFirst ? 0 : localRank);
}

std::unique_ptr<Device> fsdp::makeCudaDevice(const plan::PlanT &plan,
                                             Fabric &fabric,
                                             const DeviceOptions &options) {
  std::shared_ptr<Streams> streams = fabric.streams();
  if (!streams)
    streams = options.streams ? options.streams : makeCudaStreams(0);
  checkCapability(plan.training->device, streams->device());
  at::globalContext().lazyInitDevice(c10::kCUDA);
  useArithmetic(plan);
  return std::make_unique<CudaDevice>(fabric, std::move(streams), options);
}
