//===- Streams.cpp - Streams of a CUDA device -----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/cuda/Streams.h"
#include "runtime/cuda/Kernels.h"
#include "runtime/exec/IndexGuard.h"
#include "support/Error.h"

#include <ATen/ops/from_blob.h>
#include <c10/core/InferenceMode.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

using namespace fsdp;

/// Types that are divided.
static c10::ScalarType dividedType(plan::DType dtype) {
  switch (dtype) {
  case plan::DType::f32:
    return c10::kFloat;
  case plan::DType::f64:
    return c10::kDouble;
  case plan::DType::f16:
    return c10::kHalf;
  case plan::DType::bf16:
    return c10::kBFloat16;
  case plan::DType::c64:
    return c10::kComplexFloat;
  case plan::DType::c128:
    return c10::kComplexDouble;
  default:
    throw std::logic_error("only floating-point numbers are divided");
  }
}

static void check(cudaError_t status, const char *call, int device) {
  if (status == cudaSuccess)
    return;
  (void)cudaGetLastError(); // not to be found by whoever calls next
  throw Error(ErrorId::DeviceFailed,
              hintAtIndices(std::string(call) + " failed on CUDA device " +
                            std::to_string(device) + ": " +
                            cudaGetErrorString(status) + " (" +
                            cudaGetErrorName(status) + ")"));
}

namespace {

/// Makes a device the thread's, for good: a thread that never chose one is on
/// the first, and going back there would take some hundred megabytes of it
/// (since CUDA 12 cudaSetDevice makes the device's context).
class OnDevice {
public:
  explicit OnDevice(int device) {
    check(cudaSetDevice(device), "cudaSetDevice", device);
  }
};

/// Lets the thread make calls that CUDA else refuses, and by which it would end
/// a capture, while some thread captures work. None of those that are made so
/// belongs to the capture.
class BesideCapture {
public:
  explicit BesideCapture(int device) {
    check(cudaThreadExchangeStreamCaptureMode(&mode),
          "cudaThreadExchangeStreamCaptureMode", device);
  }
  ~BesideCapture() { (void)cudaThreadExchangeStreamCaptureMode(&mode); }
  BesideCapture(const BesideCapture &) = delete;
  BesideCapture &operator=(const BesideCapture &) = delete;

private:
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
};

/// Behind a CounterHandle.
struct CudaCounter {
  ~CudaCounter() {
    // Both wait for what uses the memory.
    (void)cudaFree(count);
    (void)cudaFreeHost(seen);
  }

  uint64_t *count = nullptr;      ///< on the device
  uint64_t *seen = nullptr;       ///< pinned, of the host
  uint64_t *seenMapped = nullptr; ///< where the device has that
};

class CudaStreams final : public Streams {
public:
  explicit CudaStreams(int device) : number(device) {
    OnDevice on(number);
    check(cudaDeviceGetStreamPriorityRange(&least, &greatest),
          "cudaDeviceGetStreamPriorityRange", number);
    computeStream = createStream(StreamPriority::normal, "compute");
  }
  ~CudaStreams() override { destroyStream(computeStream); }

  int device() const override { return number; }
  std::string place() const override {
    char text[32] = {};
    check(cudaDeviceGetPCIBusId(text, sizeof(text), number),
          "cudaDeviceGetPCIBusId", number);
    return text;
  }
  void use() override { check(cudaSetDevice(number), "cudaSetDevice", number); }
  size_t freeMemory() override {
    OnDevice on(number);
    size_t unused = 0, all = 0;
    check(cudaMemGetInfo(&unused, &all), "cudaMemGetInfo", number);
    return unused;
  }
  StreamHandle compute() const override { return computeStream; }

  StreamHandle createStream(StreamPriority priority,
                            std::string_view) override {
    OnDevice on(number);
    BesideCapture beside(number);
    cudaStream_t stream = nullptr;
    // Lower numbers come first.
    check(cudaStreamCreateWithPriority(
              &stream, cudaStreamNonBlocking,
              priority == StreamPriority::high ? greatest : least),
          "cudaStreamCreateWithPriority", number);
    return stream;
  }
  void destroyStream(StreamHandle stream) noexcept override {
    (void)cudaStreamDestroy(stream);
  }

  EventHandle createEvent() override {
    OnDevice on(number);
    BesideCapture beside(number);
    cudaEvent_t event = nullptr;
    check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming),
          "cudaEventCreateWithFlags", number);
    return event;
  }
  void destroyEvent(EventHandle event) noexcept override {
    (void)cudaEventDestroy(event);
  }

  void record(EventHandle event, StreamHandle stream) override {
    check(cudaEventRecord(event, stream), "cudaEventRecord", number);
  }
  void wait(StreamHandle stream, EventHandle event) override {
    check(cudaStreamWaitEvent(stream, event, cudaEventWaitDefault),
          "cudaStreamWaitEvent", number);
  }

  bool query(EventHandle event) override {
    BesideCapture beside(number);
    cudaError_t status = cudaEventQuery(event);
    if (status == cudaErrorNotReady) {
      // Else the check behind the thread's next kernel finds it, as an error.
      (void)cudaGetLastError();
      return false;
    }
    check(status, "cudaEventQuery", number);
    return true;
  }

  bool synchronize(EventHandle event, Clock::time_point deadline) override {
    // cudaEventSynchronize knows no deadline. What is nearly complete is seen
    // at once; longer waits leave the processor to others.
    std::chrono::microseconds pause(0);
    while (!query(event)) {
      auto now = Clock::now();
      if (now >= deadline)
        return false;
      std::this_thread::sleep_for(
          std::min<Clock::duration>(pause, deadline - now));
      pause = std::min(pause + std::chrono::microseconds(5),
                       std::chrono::microseconds(500));
    }
    return true;
  }

  bool isDone(StreamHandle stream) override {
    cudaError_t status = cudaStreamQuery(stream);
    if (status == cudaErrorNotReady) {
      (void)cudaGetLastError(); // as above
      return false;
    }
    check(status, "the rank's work", number);
    return true;
  }

  void copy(void *to, const void *from, size_t bytes,
            StreamHandle stream) override {
    if (bytes)
      check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream),
            "cudaMemcpyAsync", number);
  }
  // How pinned and other memory differ: CUDA Runtime API, "API synchronization
  // behavior".
  void upload(void *to, const void *from, size_t bytes,
              StreamHandle stream) override {
    if (bytes)
      check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream),
            "cudaMemcpyAsync", number);
  }
  void download(void *to, const void *from, size_t bytes,
                StreamHandle stream) override {
    if (bytes)
      check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream),
            "cudaMemcpyAsync", number);
  }
  void fill(void *to, unsigned char byte, size_t bytes,
            StreamHandle stream) override {
    if (bytes)
      check(cudaMemsetAsync(to, byte, bytes, stream), "cudaMemsetAsync",
            number);
  }

  void divide(void *data, size_t elements, plan::DType dtype, double divisor,
              StreamHandle stream) override {
    if (!elements)
      return;
    c10::InferenceMode inference;
    c10::cuda::CUDAStreamGuard onStream(c10::cuda::getStreamFromExternal(
        stream, static_cast<c10::DeviceIndex>(number)));
    c10::Device device(c10::kCUDA, static_cast<c10::DeviceIndex>(number));
    // Without a target LibTorch asks the driver whose memory it is.
    at::for_blob(data, {static_cast<int64_t>(elements)})
        .options(at::TensorOptions().dtype(dividedType(dtype)).device(device))
        .target_device(device)
        .make_tensor()
        .div_(divisor);
  }

  CounterHandle createCounter() override {
    OnDevice on(number);
    auto counter = std::make_unique<CudaCounter>();
    check(cudaHostAlloc(reinterpret_cast<void **>(&counter->seen),
                        sizeof(uint64_t), cudaHostAllocMapped),
          "cudaHostAlloc", number);
    check(
        cudaHostGetDevicePointer(
            reinterpret_cast<void **>(&counter->seenMapped), counter->seen, 0),
        "cudaHostGetDevicePointer", number);
    check(cudaMalloc(reinterpret_cast<void **>(&counter->count),
                     sizeof(uint64_t)),
          "cudaMalloc", number);
    // From -1 to 0, on the default stream, for which the others do not wait: a
    // capture need not load the kernel.
    check(cudaMemset(counter->count, 0xff, sizeof(uint64_t)), "cudaMemset",
          number);
    raiseOnDevice(counter->count, counter->seenMapped, nullptr);
    check(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize", number);
    return reinterpret_cast<CounterHandle>(counter.release());
  }
  void destroyCounter(CounterHandle counter) noexcept override {
    delete reinterpret_cast<CudaCounter *>(counter);
  }
  void raise(CounterHandle counter, StreamHandle stream) override {
    auto *own = reinterpret_cast<CudaCounter *>(counter);
    raiseOnDevice(own->count, own->seenMapped, stream);
  }
  uint64_t read(CounterHandle counter) noexcept override {
    auto *own = reinterpret_cast<CudaCounter *>(counter);
    return std::atomic_ref(*own->seen).load(std::memory_order_relaxed);
  }

  bool isCapturing(StreamHandle stream) override {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    check(cudaStreamIsCapturing(stream, &status), "cudaStreamIsCapturing",
          number);
    return status != cudaStreamCaptureStatusNone;
  }

private:
  const int number;
  int least = 0, greatest = 0;
  StreamHandle computeStream = nullptr;
};

} // namespace

int fsdp::countCudaDevices(const char **reason) {
  int count = 0;
  cudaError_t status = cudaGetDeviceCount(&count);
  (void)cudaGetLastError(); // having none is no failure
  if (reason)
    *reason = status != cudaSuccess ? cudaGetErrorString(status)
                                    : "the driver lists no device";
  return status == cudaSuccess ? count : 0;
}

std::shared_ptr<Streams> fsdp::makeCudaStreams(int device) {
  const char *reason = nullptr;
  int count = countCudaDevices(&reason);
  if (device < 0 || device >= count)
    throw Error(ErrorId::DeviceFailed,
                "expected a CUDA device with the number " +
                    std::to_string(device) + ", found " +
                    (count ? "only " + std::to_string(count)
                           : std::string("none: ") + reason));
  return std::make_shared<CudaStreams>(device);
}
