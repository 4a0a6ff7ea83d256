//===- Graphs.cpp - CUDA graphs -------------------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/cuda/Graphs.h"

#include "runtime/cuda/Memory.h"
#include "runtime/cuda/Workspaces.h"
#include "support/Error.h"

#include <ATen/core/CachingHostAllocator.h>
#include <ATen/cuda/CUDAGraph.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linalg_cholesky_ex.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <c10/core/InferenceMode.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <utility>

using namespace fsdp;
namespace caching = c10::cuda::CUDACachingAllocator;

namespace {

c10::cuda::CUDAStream streamOf(StreamHandle stream, int device) {
  return c10::cuda::getStreamFromExternal(
      stream, static_cast<c10::DeviceIndex>(device));
}

/// The capture that `stream` is in; 0: none. Asked for streams of all threads,
/// whose own errors it leaves alone.
unsigned long long captureOf(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  unsigned long long id = 0;
  if (cudaStreamGetCaptureInfo(stream, &status, &id) != cudaSuccess) {
    (void)cudaGetLastError();
    return 0;
  }
  return status == cudaStreamCaptureStatusActive ? id : 0;
}

/// LibTorch's memory for what is captured, on the device and on the host.
class CapturePool {
public:
  CapturePool(int device, std::function<bool(cudaStream_t)> isCaptured)
      : device(static_cast<c10::DeviceIndex>(device)),
        pool(at::cuda::graph_pool_handle()) {
    caching::beginAllocateToPool(this->device, pool, isCaptured);
    try {
      at::getHostAllocator(at::kCUDA)->begin_allocate_to_pool(
          pool, [isCaptured = std::move(isCaptured)](c10::Stream stream) {
            return isCaptured(c10::cuda::CUDAStream(stream).stream());
          });
    } catch (...) {
      caching::endAllocateToPool(this->device, pool);
      caching::releasePool(this->device, pool);
      throw;
    }
  }
  ~CapturePool() {
    // LibTorch's own complaints are no reason to end the run.
    auto quietly = [](auto &&call) {
      try {
        call();
      } catch (const std::exception &) {
      }
    };
    quietly([&] { close(); });
    quietly([&] { caching::releasePool(device, pool); });
    quietly([&] { at::getHostAllocator(at::kCUDA)->release_pool(pool); });
  }
  CapturePool(const CapturePool &) = delete;
  CapturePool &operator=(const CapturePool &) = delete;

  /// The capture is over; what it was given stays.
  void close() {
    if (!std::exchange(isOpen, false))
      return;
    caching::endAllocateToPool(device, pool);
    at::getHostAllocator(at::kCUDA)->end_allocate_to_pool(pool);
  }

private:
  const c10::DeviceIndex device;
  const c10::MempoolId_t pool;
  bool isOpen = true;
};

class CudaGraph final : public WorkGraph {
public:
  CudaGraph(StreamHandle stream, cudaGraph_t graph,
            std::unique_ptr<CapturePool> memory)
      : stream(stream), memory(std::move(memory)) {
    checkCuda(cudaGraphGetNodes(graph, nullptr, &nodes), "cudaGraphGetNodes");
    checkCuda(cudaGraphInstantiateWithFlags(
                  &executable, graph, cudaGraphInstantiateFlagAutoFreeOnLaunch),
              "cudaGraphInstantiateWithFlags");
    // What the device has no memory for is known before ranks agree.
    if (cudaError_t status = cudaGraphUpload(executable, stream);
        status != cudaSuccess) {
      (void)cudaGraphExecDestroy(executable);
      checkCuda(status, "cudaGraphUpload");
    }
  }
  ~CudaGraph() override {
    // Does not wait: a launch may never end.
    (void)cudaGraphExecDestroy(executable);
    (void)cudaGetLastError();
  }

  void launch() override {
    checkCuda(cudaGraphLaunch(executable, stream), "cudaGraphLaunch");
  }
  size_t size() const override { return nodes; }

private:
  const StreamHandle stream;
  const std::unique_ptr<CapturePool> memory;
  cudaGraphExec_t executable = nullptr;
  size_t nodes = 0;
};

/// A stream that is captured until `end`, or until this is destroyed.
class Capture {
public:
  Capture(StreamHandle stream, int device) : stream(stream) {
    memory =
        std::make_unique<CapturePool>(device, [shared = id](cudaStream_t each) {
          return *shared != 0 && captureOf(each) == *shared;
        });
    // Other threads may make calls that wait.
    checkCuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
              "cudaStreamBeginCapture");
    isOpen = true;
    *id = captureOf(stream);
  }
  ~Capture() {
    if (isOpen) {
      // Says why it failed, which whoever put work on it said, too.
      (void)cudaStreamEndCapture(stream, &graph);
      (void)cudaGetLastError();
    }
    if (graph)
      (void)cudaGraphDestroy(graph);
  }
  Capture(const Capture &) = delete;
  Capture &operator=(const Capture &) = delete;

  std::unique_ptr<WorkGraph> end() {
    isOpen = false;
    checkCuda(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
    memory->close();
    return std::make_unique<CudaGraph>(stream, graph, std::move(memory));
  }

private:
  const StreamHandle stream;
  const std::shared_ptr<unsigned long long> id =
      std::make_shared<unsigned long long>(0);
  std::unique_ptr<CapturePool> memory;
  cudaGraph_t graph = nullptr;
  bool isOpen = false;
};

/// Whether `call`, of a library, succeeds again. A library that has a CUDA
/// runtime of its own, as cuSOLVER and cuBLAS do, keeps the error of a call
/// that was refused in a capture and gives it to the next one.
template <typename Call>
bool succeeds(StreamHandle stream, Call call) {
  constexpr int kTries = 4;
  for (int i = 0; i < kTries; ++i) {
    bool isRight = false;
    try {
      isRight = call();
    } catch (const std::exception &) {
    }
    isRight &= cudaStreamSynchronize(stream) == cudaSuccess;
    (void)cudaGetLastError();
    if (isRight)
      return true;
  }
  return false;
}

} // namespace

void CudaGraphRecorder::enter(StreamHandle stream) {
  c10::cuda::setCurrentCUDAStream(streamOf(stream, device));
}

std::unique_ptr<WorkGraph>
CudaGraphRecorder::record(StreamHandle stream,
                          const std::function<void()> &put) {
  Capture capture(stream, device);
  put();
  return capture.end();
}

bool CudaGraphRecorder::recovers(const std::string &reason,
                                 StreamHandle stream) {
  c10::InferenceMode inference;
  at::TensorOptions options =
      at::TensorOptions()
          .dtype(at::kFloat)
          .device(c10::kCUDA, static_cast<c10::DeviceIndex>(device));
  if (!succeeds(stream, [&] {
        // What products work in is taken here rather than by a step.
        placeWorkspaces();
        at::Tensor one = at::ones({1, 1}, options);
        return at::mm(one, one).item<float>() == 1;
      }))
    return false;
  // Only where it is loaded already: that takes time and memory.
  if (reason.find("cusolver") == std::string::npos)
    return true;
  return succeeds(stream, [&] {
    at::Tensor four = at::full({1, 1}, 4, options);
    return std::get<0>(at::linalg_cholesky_ex(four)).item<float>() == 2;
  });
}
