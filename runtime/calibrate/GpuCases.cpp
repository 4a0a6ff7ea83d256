//===- GpuCases.cpp - What is measured of a GPU ---------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/calibrate/GpuCases.h"

#include "plan/DType.h"

#include <algorithm>
#include <cmath>
#include <utility>

using namespace fsdp;
using Kind = BenchWork::Kind;
using plan::DType;

/// Of products: rows, columns and depth.
static constexpr int64_t kGpuProductSizes[] = {16, 128, 512, 2048, 8192};
static constexpr DType kProductTypes[] = {DType::bf16, DType::f32};
/// Whose rate is that of one large product.
static constexpr DType kRateTypes[] = {DType::bf16, DType::f16, DType::f32,
                                       DType::f64};
static constexpr int64_t kGpuRateSize = 8192, kGpuRateSizeF64 = 4096;
static constexpr int64_t kTransfers[] = {int64_t(64) << 10, int64_t(1) << 20,
                                         int64_t(16) << 20, int64_t(64) << 20,
                                         int64_t(256) << 20};
static constexpr int64_t kLarge = int64_t(256) << 20; ///< bytes of one operand
static constexpr int64_t kSmall = 64;                 ///< elements
static constexpr int64_t kLength = 8192, kGpuImages = 32;
/// Power and heat settle for so long before anything counts.
static constexpr double kWarmSeconds = 2;
/// A series of calls takes about so long, and is not less or more than so many.
static constexpr double kSeriesSeconds = 4e-3;
/// In which libraries choose and load their kernels.
static constexpr int kFirstCalls = 2;
static constexpr int kLeastCalls = 4, kMostCalls = 50, kSeries = 3;

namespace {

class Measurer {
public:
  Measurer(Bench &bench, const std::function<void(const std::string &)> &say)
      : bench(bench), say(say) {}

  GpuMeasurements run();

private:
  void warmUp();
  void memory();
  void products();
  void attention();
  void host();
  void transfers();

  /// Seconds of a call, once it is warm, behind one another on the stream.
  double time(const std::function<void()> &call);
  double time(const BenchWork &work) { return time(bench.prepare(work)); }
  /// Keeps the device busy for so long.
  void hold(double seconds);

  Bench &bench;
  const std::function<void(const std::string &)> &say;
  GpuMeasurements result;
  std::function<void()> holding;
  double holdSeconds = 0;  ///< of a call
  double issueSeconds = 0; ///< of the host, for the last call that was timed
  double rate = 0;         ///< of bf16
};

double flopsOf(int64_t m, int64_t n, int64_t k) {
  return 2.0 * double(m) * double(n) * double(k);
}

BenchWork product(DType dtype, int64_t m, int64_t n, int64_t k,
                  bool isTransposed = false) {
  BenchWork work{Kind::product, dtype, isTransposed};
  work.rows = m;
  work.columns = n;
  work.depth = k;
  return work;
}

BenchWork transferOf(CollectiveKind kind, int64_t bytes) {
  BenchWork work{Kind::transfer};
  work.collective = kind;
  work.elements = bytes;
  return work;
}

BenchWork ofElements(Kind kind, int64_t elements, bool isCold = true) {
  BenchWork work{kind};
  work.elements = elements;
  work.isCold = isCold;
  return work;
}

} // namespace

void Measurer::hold(double seconds) {
  for (double held = 0; holdSeconds > 0 && held < seconds; held += holdSeconds)
    holding();
}

double Measurer::time(const std::function<void()> &call) {
  for (int i = 0; i < kFirstCalls; ++i)
    call();
  bench.begin();
  call();
  double one = bench.average(bench.end());
  int calls = std::clamp(int(kSeriesSeconds / std::max(one, 1e-9)), kLeastCalls,
                         kMostCalls);
  std::vector<double> series, issues;
  double issue = 0;
  for (int i = 0; i < kSeries; ++i) {
    // The host is ahead: what it needs for the calls is none of the stream's
    // time.
    hold(2 * issue * calls);
    // Ranks that hold for different times come together in a transfer.
    call();
    bench.begin();
    double before = bench.now();
    for (int k = 0; k < calls; ++k)
      call();
    issue = (bench.now() - before) / calls;
    double seconds = bench.end() / calls;
    // Of the first nobody knew how long to hold.
    if (i > 0) {
      series.push_back(seconds);
      issues.push_back(issue);
    }
  }
  issueSeconds = *std::ranges::min_element(issues);
  return bench.average(*std::ranges::min_element(series));
}

void Measurer::warmUp() {
  holding = bench.prepare(product(DType::bf16, 4096, 4096, 4096));
  for (int i = 0; i < kFirstCalls; ++i)
    holding();
  bench.begin();
  holding();
  holdSeconds = std::max(bench.end(), 1e-6);
  double end = bench.now() + kWarmSeconds;
  // Ranks go on together.
  for (bool isWarm = false; !isWarm;) {
    bench.begin();
    hold(kWarmSeconds / 20);
    bench.end();
    isWarm = bench.average(bench.now() < end ? 1 : 0) == 0;
  }
}

void Measurer::memory() {
  say("memory and small kernels");
  result.kernel = time(ofElements(Kind::add, kSmall, /*isCold=*/false));
  result.issue = bench.average(issueSeconds);
  auto rateOf = [&](int64_t bytes, bool isCold) {
    double seconds = time(ofElements(Kind::copy, bytes / 4, isCold));
    // As the model adds both.
    return 2 * double(bytes) / std::max(seconds - result.kernel, 1e-9);
  };
  result.bandwidth = rateOf(kLarge, /*isCold=*/true);
  // Half of it, since others' work is there, too.
  result.cache = double(result.facts.cache) / 2;
  result.cacheBandwidth =
      result.cache < 2 * 4
          ? result.bandwidth
          : rateOf(int64_t(result.cache) / 2 / 16 * 16, /*isCold=*/false);
}

void Measurer::products() {
  for (DType dtype : kRateTypes) {
    say("the rate of products of " + std::string(dtypeName(dtype)));
    int64_t size = dtype == DType::f64 ? kGpuRateSizeF64 : kGpuRateSize;
    double each =
        flopsOf(size, size, size) / time(product(dtype, size, size, size));
    result.tables.push_back(
        {"rate " + std::string(dtypeName(dtype)), {}, each});
    if (dtype == DType::bf16)
      rate = each;
  }
  for (DType dtype : kProductTypes)
    for (bool isTransposed : {false, true}) {
      std::string table = std::string("products ") +
                          (isTransposed ? "transposed " : "") +
                          std::string(dtypeName(dtype));
      say(table);
      for (int64_t m : kGpuProductSizes)
        for (int64_t n : kGpuProductSizes)
          for (int64_t k : kGpuProductSizes)
            result.tables.push_back(
                {table,
                 {double(m), double(n), double(k)},
                 time(product(dtype, m, n, k, isTransposed))});
    }
}

void Measurer::attention() {
  say("attention and convolutions");
  auto share = [&](BenchWork work, double flops) {
    work.dtype = DType::bf16;
    double seconds = time(work) - result.kernel;
    return std::min(1.0, flops / (rate * std::max(seconds, 1e-9)));
  };
  BenchWork work{Kind::attention};
  work.rows = kLength;
  // Two products of which half is computed; five backward (simulate/Work.cpp).
  double flops = 2.0 * double(kBenchHeads) * double(kBenchWidth) *
                 double(kLength) * double(kLength);
  result.attentionForward = share(work, flops);
  work.kind = Kind::attentionBackward;
  result.attentionBackward = share(work, 2.5 * flops);
  work.kind = Kind::convolution;
  work.rows = kGpuImages;
  result.convolution =
      share(work, flopsOf(kGpuImages * kBenchSide * kBenchSide, kBenchChannels,
                          kBenchChannels * kBenchKernel * kBenchKernel));
}

void Measurer::host() {
  say("copies between host and device");
  result.copy = time(ofElements(Kind::upload, kSmall));
  auto rateOf = [&](Kind kind) {
    return double(kLarge) /
           std::max(time(ofElements(kind, kLarge / 4)) - result.copy, 1e-9);
  };
  result.upload = rateOf(Kind::upload);
  result.download = rateOf(Kind::download);
  // All ranks at the same time, as optimizers are.
  std::function<void()> copy =
      bench.prepare(ofElements(Kind::hostCopy, kLarge / 4));
  copy();
  bench.average(0);
  double least = 1e9;
  for (int i = 0; i < kSeries; ++i) {
    double before = bench.now();
    copy();
    least = std::min(least, bench.now() - before);
  }
  result.hostBandwidth = bench.average(2 * double(kLarge) / least);
}

void Measurer::transfers() {
  if (bench.ranks() == 1)
    return;
  say("transfers");
  double largest = 0;
  for (CollectiveKind kind : plan::EnumValuesCollectiveKind())
    for (int64_t bytes : kTransfers) {
      double seconds = time(transferOf(kind, bytes));
      result.tables.push_back({getName(kind), {double(bytes)}, seconds});
      if (kind == CollectiveKind::all_gather && bytes == kTransfers[0])
        result.launch = seconds;
      if (kind == CollectiveKind::all_gather)
        largest = seconds;
    }
  double ranks = bench.ranks();
  result.link = double(*std::rbegin(kTransfers)) * (ranks - 1) / ranks /
                std::max(largest - result.launch, 1e-9);

  say("products beside transfers");
  BenchWork gather =
      transferOf(CollectiveKind::all_gather, *std::rbegin(kTransfers));
  BenchWork beside = product(DType::bf16, 2048, 2048, 2048);
  double alone = time(beside);
  int count = std::max(1, int(std::ceil(2 * largest / alone)));
  double both = time(bench.prepareBeside(gather, beside, count));
  // What products take longer is what the transfer took of the device, for as
  // long as it moved.
  result.processor = std::clamp((both - count * alone) / largest, 0.0, 0.95);
}

GpuMeasurements Measurer::run() {
  result.ranks = bench.ranks();
  result.facts = bench.facts();
  say("warm-up");
  warmUp();
  memory();
  products();
  attention();
  host();
  transfers();
  // Libraries have all that they take, and tensors nothing.
  holding = nullptr;
  result.facts = bench.facts();
  result.facts.reserved =
      uint64_t(bench.average(double(result.facts.reserved)));
  return std::move(result);
}

GpuMeasurements
fsdp::measureGpu(Bench &bench,
                 const std::function<void(const std::string &)> &say) {
  return Measurer(bench, say).run();
}
