//===- Bench.cpp - A CUDA device that is measured -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/cuda/Bench.h"

#include "runtime/cuda/Memory.h"
#include "runtime/cuda/Workspaces.h"
#include "runtime/device/DTypes.h"
#include "support/Error.h"

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/_scaled_dot_product_cudnn_attention.h>
#include <ATen/ops/_scaled_dot_product_cudnn_attention_backward.h>
#include <ATen/ops/_scaled_dot_product_flash_attention.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_backward.h>
#include <ATen/ops/add.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <numeric>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

using namespace fsdp;
using Kind = BenchWork::Kind;

/// Buffers that take turns hold so many bytes, more than any cache.
static constexpr int64_t kCold = int64_t(512) << 20;
static constexpr int64_t kMostTurns = 64;

namespace {

class CudaBench final : public Bench {
public:
  CudaBench(std::shared_ptr<Streams> streams, Fabric *fabric);
  ~CudaBench() override;

  BenchFacts facts() override;
  int ranks() const override { return fabric ? fabric->worldSize() : 1; }
  int rank() const override { return fabric ? fabric->rank() : 0; }
  double average(double own) override;
  std::function<void()> prepare(const BenchWork &work) override;
  std::function<void()> prepareBeside(const BenchWork &transfer,
                                      const BenchWork &beside,
                                      int count) override;
  void begin() override;
  double end() override;
  double now() override {
    return std::chrono::duration<double>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }

private:
  using Call = std::function<void()>;
  /// Starts a transfer, which is to be waited for.
  using Start = std::function<Communicator::Ticket()>;

  at::TensorOptions on(plan::DType dtype) const {
    return at::TensorOptions()
        .dtype(toScalarType(dtype))
        .device(c10::kCUDA, stream.device_index());
  }
  /// As many as the work is to have cold operands, of `bytes` each.
  template <typename Make>
  Call inTurn(const BenchWork &work, int64_t bytes, Make make);
  Call product(const BenchWork &work);
  Call attention(const BenchWork &work);
  Call convolution(const BenchWork &work);
  Call copyAcross(const BenchWork &work);
  Start transfer(const BenchWork &work);

  const std::shared_ptr<Streams> streams;
  Fabric *const fabric;
  const c10::cuda::CUDAStream stream, before;
  std::unique_ptr<Communicator> communicator; ///< null: there is one GPU
  cudaEvent_t first = nullptr, last = nullptr;
  uint64_t number = 0; ///< of transfers
  uint64_t means = 0;
  int capability = 0;
};

} // namespace

CudaBench::CudaBench(std::shared_ptr<Streams> onDevice, Fabric *ranks)
    : streams(std::move(onDevice)), fabric(ranks),
      stream(c10::cuda::getStreamFromExternal(
          streams->compute(),
          static_cast<c10::DeviceIndex>(streams->device()))),
      before(c10::cuda::getCurrentCUDAStream(stream.device_index())) {
  at::globalContext().lazyInitDevice(c10::kCUDA);
  useArithmetic(plan::PlanT());
  streams->use();
  c10::cuda::setCurrentCUDAStream(stream);
  placeWorkspaces();
  checkCuda(cudaEventCreate(&first), "cudaEventCreate");
  checkCuda(cudaEventCreate(&last), "cudaEventCreate");
  cudaDeviceProp properties{};
  checkCuda(cudaGetDeviceProperties(&properties, streams->device()),
            "cudaGetDeviceProperties");
  capability = 10 * properties.major + properties.minor;
  // What products of bfloat16 need.
  if (capability < 80)
    throw Error(ErrorId::RuntimeUnsupported,
                "--calibrate of GPUs needs one of sm_80 or later, found sm_" +
                    std::to_string(capability) +
                    "; start from a file of simulate/clusters");
  if (!fabric || fabric->worldSize() == 1)
    return;
  GroupRanks group;
  group.name = "calibrate";
  group.ranks.resize(static_cast<size_t>(fabric->worldSize()));
  std::iota(group.ranks.begin(), group.ranks.end(), 0);
  communicator = fabric->createCommunicator(group);
}

CudaBench::~CudaBench() {
  (void)cudaStreamSynchronize(stream);
  communicator.reset();
  (void)cudaEventDestroy(first);
  (void)cudaEventDestroy(last);
  c10::cuda::setCurrentCUDAStream(before);
}

BenchFacts CudaBench::facts() {
  checkCuda(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  c10::cuda::CUDACachingAllocator::emptyCache();
  cudaDeviceProp properties{};
  checkCuda(cudaGetDeviceProperties(&properties, streams->device()),
            "cudaGetDeviceProperties");
  size_t unused = 0, all = 0;
  checkCuda(cudaMemGetInfo(&unused, &all), "cudaMemGetInfo");
  BenchFacts facts;
  facts.name = properties.name;
  facts.memory = all;
  // The communicator saw what NCCL took, with its first transfers, too.
  facts.communicator = communicator ? communicator->stagingBytes() : 0;
  facts.reserved =
      all - unused - std::min<uint64_t>(facts.communicator, all - unused);
  facts.cache = static_cast<uint64_t>(properties.l2CacheSize);
  facts.units = properties.multiProcessorCount;
  return facts;
}

double CudaBench::average(double own) {
  if (!fabric)
    return own;
  // By the host: the device is left alone.
  char text[40];
  std::snprintf(text, sizeof(text), "%.17g", own);
  double sum = 0;
  std::vector<std::string> all =
      fabric->exchange("mean " + std::to_string(means++), text);
  for (const std::string &each : all)
    sum += std::stod(each);
  return sum / static_cast<double>(all.size());
}

template <typename Make>
CudaBench::Call CudaBench::inTurn(const BenchWork &work, int64_t bytes,
                                  Make make) {
  int64_t count = work.isCold ? std::clamp(kCold / std::max<int64_t>(bytes, 1),
                                           int64_t(1), kMostTurns)
                              : 1;
  std::vector<Call> calls;
  for (int64_t i = 0; i < count; ++i)
    calls.push_back(make());
  return [calls = std::move(calls), next = size_t(0)]() mutable {
    calls[next]();
    next = (next + 1) % calls.size();
  };
}

CudaBench::Call CudaBench::product(const BenchWork &work) {
  auto [m, n, k] = std::tuple(work.rows, work.columns, work.depth);
  at::TensorOptions options = on(work.dtype);
  at::Tensor left = work.isTransposed ? at::randn({k, m}, options).t()
                                      : at::randn({m, k}, options);
  at::Tensor out = at::empty({m, n}, options);
  bool isTransposed = work.isTransposed;
  // Weights come from memory, activations are where the last kernel left them.
  return inTurn(work, n * k * static_cast<int64_t>(out.element_size()), [&] {
    at::Tensor right = isTransposed ? at::randn({k, n}, options)
                                    : at::randn({n, k}, options).t();
    return [=]() mutable { at::mm_out(out, left, right); };
  });
}

CudaBench::Call CudaBench::attention(const BenchWork &work) {
  at::TensorOptions options = on(work.dtype);
  std::vector<int64_t> shape{1, kBenchHeads, work.rows, kBenchWidth};
  at::Tensor q = at::randn(shape, options), k = at::randn(shape, options),
             v = at::randn(shape, options),
             gradient = at::randn(shape, options);
  bool isBackward = work.kind == Kind::attentionBackward;
  int64_t length = work.rows;
  // As artifacts for this generation have it.
  if (capability >= 90 && capability < 110) {
    auto forward = [=] {
      return at::_scaled_dot_product_cudnn_attention(
          q, k, v, /*attn_bias=*/std::nullopt, /*compute_log_sumexp=*/true,
          /*dropout_p=*/0.0, /*is_causal=*/true);
    };
    if (!isBackward)
      return [=] { forward(); };
    auto made = forward();
    return [=] {
      at::_scaled_dot_product_cudnn_attention_backward(
          gradient, q, k, v, std::get<0>(made), std::get<1>(made),
          std::get<6>(made), std::get<7>(made), /*attn_bias=*/at::Tensor(),
          std::get<2>(made), std::get<3>(made), length, length,
          /*dropout_p=*/0.0, /*is_causal=*/true);
    };
  }
  auto forward = [=] {
    return at::_scaled_dot_product_flash_attention(q, k, v, /*dropout_p=*/0.0,
                                                   /*is_causal=*/true);
  };
  if (!isBackward)
    return [=] { forward(); };
  auto made = forward();
  return [=] {
    at::_scaled_dot_product_flash_attention_backward(
        gradient, q, k, v, std::get<0>(made), std::get<1>(made),
        std::get<2>(made), std::get<3>(made), length, length, /*dropout_p=*/0.0,
        /*is_causal=*/true, std::get<6>(made), std::get<7>(made));
  };
}

CudaBench::Call CudaBench::convolution(const BenchWork &work) {
  at::TensorOptions options = on(work.dtype);
  at::Tensor x =
      at::randn({work.rows, kBenchChannels, kBenchSide, kBenchSide}, options);
  at::Tensor weight = at::randn(
      {kBenchChannels, kBenchChannels, kBenchKernel, kBenchKernel}, options);
  std::vector<int64_t> ones{1, 1}, padding{kBenchKernel / 2, kBenchKernel / 2},
      none{0, 0};
  return [=] {
    at::convolution(x, weight, /*bias=*/std::nullopt, ones, padding, ones,
                    /*transposed=*/false, none, /*groups=*/1);
  };
}

CudaBench::Call CudaBench::copyAcross(const BenchWork &work) {
  at::Tensor device = at::zeros({work.elements}, on(work.dtype));
  at::Tensor host = at::zeros({work.elements},
                              at::TensorOptions()
                                  .dtype(toScalarType(work.dtype))
                                  .pinned_memory(work.kind != Kind::hostCopy));
  if (work.kind == Kind::upload)
    return [=]() mutable { device.copy_(host, /*non_blocking=*/true); };
  if (work.kind == Kind::download)
    return [=]() mutable { host.copy_(device, /*non_blocking=*/true); };
  at::Tensor other = at::zeros_like(host);
  return [=]() mutable { other.copy_(host); };
}

CudaBench::Start CudaBench::transfer(const BenchWork &work) {
  if (!communicator)
    throw std::logic_error("one GPU has no transfers");
  int64_t ranks = communicator->size();
  int64_t part = std::max<int64_t>(1, work.elements / 4 / ranks);
  const CollectiveFacts &facts = getFacts(work.collective);
  auto make = [&](Whole is) {
    bool isPart = is == Whole::given ? facts.whole == Whole::got
                                     : facts.whole == Whole::given;
    return at::zeros({isPart ? part : part * ranks}, on(plan::DType::f32));
  };
  at::Tensor from = make(Whole::given);
  at::Tensor to = facts.isInPlace ? from : make(Whole::got);
  int64_t elements = facts.whole == Whole::neither ? part * ranks : part;
  return [=, this] {
    Member member{from.data_ptr(), to.data_ptr(), static_cast<size_t>(elements),
                  plan::DType::f32};
    return communicator->start(
        {{work.collective, "calibrate", number++}, {&member, 1}});
  };
}

std::function<void()> CudaBench::prepare(const BenchWork &work) {
  switch (work.kind) {
  case Kind::product:
    return product(work);
  case Kind::attention:
  case Kind::attentionBackward:
    return attention(work);
  case Kind::convolution:
    return convolution(work);
  case Kind::add: {
    at::Tensor x = at::zeros({work.elements}, on(work.dtype));
    return inTurn(work, 2 * static_cast<int64_t>(x.nbytes()), [&] {
      at::Tensor y = at::zeros_like(x), out = at::zeros_like(x);
      return [=]() mutable { at::add_out(out, x, y); };
    });
  }
  case Kind::copy:
    return inTurn(work, 8 * work.elements, [&] {
      at::Tensor from = at::zeros({work.elements}, on(work.dtype));
      at::Tensor to = at::zeros_like(from);
      return [=]() mutable { to.copy_(from, /*non_blocking=*/true); };
    });
  case Kind::upload:
  case Kind::download:
  case Kind::hostCopy:
    return copyAcross(work);
  case Kind::transfer:
    return [this, start = transfer(work)] { communicator->wait(start()); };
  }
  throw std::logic_error("no such work");
}

std::function<void()> CudaBench::prepareBeside(const BenchWork &across,
                                               const BenchWork &beside,
                                               int count) {
  return [this, start = transfer(across), call = prepare(beside),
          count]() mutable {
    Communicator::Ticket ticket = start();
    for (int i = 0; i < count; ++i)
      call();
    communicator->wait(ticket);
  };
}

void CudaBench::begin() {
  checkCuda(cudaEventRecord(first, stream), "cudaEventRecord");
}

double CudaBench::end() {
  checkCuda(cudaEventRecord(last, stream), "cudaEventRecord");
  checkCuda(cudaEventSynchronize(last), "cudaEventSynchronize");
  float milliseconds = 0;
  checkCuda(cudaEventElapsedTime(&milliseconds, first, last),
            "cudaEventElapsedTime");
  return 1e-3 * milliseconds;
}

std::unique_ptr<Bench> fsdp::makeCudaBench(std::shared_ptr<Streams> streams,
                                           Fabric *fabric) {
  return std::make_unique<CudaBench>(std::move(streams), fabric);
}
