//===- GpuCasesTest.cpp - A calibration of a GPU with made-up costs -------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The device is a clock: each piece of work costs what a formula says, behind
// what was put on the stream before it and behind the host. What is measured,
// and what predictions read in the file that is written, has to be these costs.
//
//===----------------------------------------------------------------------===//

#include "runtime/calibrate/GpuCases.h"
#include "simulate/CollectiveModel.h"
#include "simulate/ComputeModel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

using namespace fsdp;
using Kind = BenchWork::Kind;
using plan::DType;

namespace {

constexpr double kIssue = 6e-6, kKernel = 2e-6, kPerCall = 1e-6;
constexpr double kBandwidth = 3e12, kCacheBandwidth = 6e12;
constexpr double kUpload = 50e9, kDownload = 40e9, kCopy = 9e-6;
constexpr double kHostBandwidth = 30e9;
constexpr double kForward = 0.6, kBackward = 0.45, kConvolution = 0.5;
constexpr double kLaunch = 20e-6, kLink = 300e9, kProcessor = 0.15;
/// For the first calls of each piece of work.
constexpr double kFirstTime = 50e-3;
/// Before power has settled.
constexpr double kCoolSeconds = 1, kCoolFactor = 0.7;

class MadeUpBench final : public Bench {
public:
  explicit MadeUpBench(int ranks) : count(ranks) {}

  BenchFacts facts() override {
    BenchFacts facts;
    facts.name = "Made 'up' GPU";
    facts.memory = 80'000'000'000;
    facts.reserved = warm ? 1'500'000'000 : 500'000'000;
    facts.cache = 50'000'000;
    facts.units = 100;
    facts.communicator = count > 1 ? 300'000'000 : 0;
    return facts;
  }
  int ranks() const override { return count; }
  int rank() const override { return 0; }
  double average(double own) override { return own; }

  std::function<void()> prepare(const BenchWork &work) override {
    return [this, work, calls = 0]() mutable {
      if (work.kind == Kind::hostCopy) {
        host += costOf(work);
        return;
      }
      put(costOf(work) + (calls++ < 2 ? kFirstTime : 0));
    };
  }
  std::function<void()> prepareBeside(const BenchWork &transfer,
                                      const BenchWork &beside,
                                      int products) override {
    EXPECT_GE(products * costOf(beside), costOf(transfer))
        << "it moves on when there is nothing beside it";
    return [this, transfer, beside, products] {
      for (int i = 0; i < products; ++i)
        put(costOf(beside));
      put(kProcessor * costOf(transfer));
    };
  }
  void begin() override { start = std::max(stream, host); }
  double end() override {
    host = std::max(stream, host);
    return stream - start;
  }
  double now() override { return host; }

  static double rateOf(DType dtype) {
    return dtype == DType::bf16 || dtype == DType::f16 ? 600e12
           : dtype == DType::f32                       ? 50e12
                                                       : 25e12;
  }
  static double productOf(const BenchWork &work) {
    return kPerCall + (work.isTransposed ? 1.25 : 1) * 2 * double(work.rows) *
                          double(work.columns) * double(work.depth) /
                          rateOf(work.dtype);
  }
  double transferOf(const BenchWork &work) const {
    double whole = double(work.elements) / kLink;
    double across = whole * (count - 1) / count;
    switch (work.collective) {
    case CollectiveKind::all_gather:
    case CollectiveKind::reduce_scatter:
    case CollectiveKind::all_to_all:
      return across;
    case CollectiveKind::all_reduce:
      return 2 * across;
    case CollectiveKind::rotate:
      return whole;
    }
    return 0;
  }
  double costOf(const BenchWork &work) const {
    auto bytes = 4 * double(work.elements);
    double rate = rateOf(DType::bf16);
    double attention = 2.0 * kBenchHeads * kBenchWidth * double(work.rows) *
                       double(work.rows) / rate;
    switch (work.kind) {
    case Kind::product:
      return productOf(work) * (host < kCoolSeconds ? kCoolFactor : 1);
    case Kind::attention:
      return kKernel + attention / kForward;
    case Kind::attentionBackward:
      return kKernel + 2.5 * attention / kBackward;
    case Kind::convolution:
      return kKernel + 2.0 * double(work.rows) * kBenchSide * kBenchSide *
                           kBenchChannels * kBenchChannels * kBenchKernel *
                           kBenchKernel / (rate * kConvolution);
    case Kind::add:
      return kKernel + 3 * bytes / kCacheBandwidth;
    case Kind::copy:
      return kKernel + 2 * bytes / (work.isCold ? kBandwidth : kCacheBandwidth);
    case Kind::upload:
      return kCopy + bytes / kUpload;
    case Kind::download:
      return kCopy + bytes / kDownload;
    case Kind::hostCopy:
      return 2 * bytes / kHostBandwidth;
    case Kind::transfer:
      return kLaunch + transferOf(work);
    }
    return 0;
  }

private:
  void put(double seconds) {
    host += kIssue;
    stream = std::max(stream, host) + seconds;
    warm = true;
  }

  const int count;
  double host = 0, stream = 0, start = 0;
  bool warm = false;
};

GpuMeasurements measure(int ranks) {
  MadeUpBench bench(ranks);
  return measureGpu(bench, [](const std::string &) {});
}

/// Within what four digits and a blocking call's end leave of it.
void expectNear(double found, double expected, double share = 0.01) {
  EXPECT_NEAR(found / expected, 1, share) << found << " for " << expected;
}

Work product(DType dtype, int64_t m, int64_t n, int64_t k, bool isTransposed) {
  Work work;
  work.kind = WorkKind::matmul;
  work.dtype = dtype;
  work.matmul = {1, m, n, k};
  work.flops = 2.0 * double(m) * double(n) * double(k);
  work.isTransposed = isTransposed;
  return work;
}

TEST(GpuCasesTest, TheFileHasTheDevicesCosts) {
  Cluster cluster = Cluster::parse(printGpuCluster(measure(4)), "gpu.yaml");
  const DeviceModel &device = cluster.device;
  EXPECT_FALSE(device.isHost);
  EXPECT_EQ(cluster.ranksPerNode, 4);
  EXPECT_EQ(device.name, "Made up GPU");
  expectNear(device.memory, 80e9);
  expectNear(device.reserved, 1.5e9); // once libraries are loaded
  expectNear(device.kernel, kKernel);
  expectNear(device.issue, kIssue);
  expectNear(device.bandwidth, kBandwidth);
  expectNear(device.cache, 25e6);
  expectNear(device.cacheBandwidth, kCacheBandwidth);
  expectNear(device.attentionForward, kForward);
  expectNear(device.attentionBackward, kBackward);
  expectNear(device.convolution, kConvolution);
  expectNear(device.matmul.rates.at(DType::bf16), 600e12);
  expectNear(device.matmul.rates.at(DType::f16), 600e12);
  expectNear(device.matmul.rates.at(DType::f32), 50e12);
  expectNear(device.matmul.rates.at(DType::f64), 25e12);
  EXPECT_EQ(device.matmul.units, 100);
  expectNear(cluster.host.upload, kUpload);
  expectNear(cluster.host.download, kDownload);
  expectNear(cluster.host.copy, kCopy);
  expectNear(cluster.host.bandwidth, kHostBandwidth);
  EXPECT_FALSE(cluster.network.staging);
  expectNear(cluster.network.link, kLink);
  expectNear(cluster.network.launch, kLaunch, 0.02);
  expectNear(cluster.network.processor, kProcessor);
  expectNear(cluster.network.communicator, 300e6);
}

TEST(GpuCasesTest, PredictionsHaveTheProductsThatWereMeasured) {
  Cluster cluster = Cluster::parse(printGpuCluster(measure(1)), "gpu.yaml");
  ComputeModel model(cluster);
  for (DType dtype : {DType::bf16, DType::f32})
    for (bool isTransposed : {false, true})
      for (int64_t size : {16, 512, 8192}) {
        BenchWork work{Kind::product, dtype, isTransposed};
        work.rows = size;
        work.columns = 2048;
        work.depth = 512;
        expectNear(model.seconds(product(dtype, size, 2048, 512, isTransposed)),
                   MadeUpBench::productOf(work));
      }
}

TEST(GpuCasesTest, PredictionsHaveTheTransfersThatWereMeasured) {
  MadeUpBench bench(8);
  Cluster cluster = Cluster::parse(printGpuCluster(measure(8)), "gpu.yaml");
  CollectiveModel model(cluster);
  plan::GroupT group;
  group.size = 8;
  group.stride = 1;
  for (CollectiveKind kind : plan::EnumValuesCollectiveKind())
    for (double bytes : {1e6, 30e6, 250e6}) {
      BenchWork work{Kind::transfer};
      work.collective = kind;
      work.elements = int64_t(bytes);
      TransferCost cost = model.collective(kind, bytes, group, 1);
      expectNear(cost.seconds, bench.costOf(work), 0.02);
      EXPECT_EQ(cost.start, 0) << "the host waits for nothing";
      expectNear(cost.processor, kProcessor, 0.02);
    }
}

/// There is nobody to send anything to.
TEST(GpuCasesTest, OneGpuHasNoTransfers) {
  GpuMeasurements alone = measure(1);
  EXPECT_EQ(alone.link, 0);
  std::string text = printGpuCluster(alone);
  EXPECT_THAT(text, testing::HasSubstr("no transfers were measured"));
  Cluster cluster = Cluster::parse(text, "gpu.yaml");
  EXPECT_TRUE(cluster.network.measured.empty());
  EXPECT_EQ(cluster.ranksPerNode, 1);
}

/// The host takes three times as long for it as the device: its time must not
/// count for the device's.
TEST(GpuCasesTest, SmallKernelsAreNotTimedByTheHost) {
  static_assert(kIssue > 2 * kKernel);
  expectNear(measure(1).kernel, kKernel);
}

} // namespace
