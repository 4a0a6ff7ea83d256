//===- ComputeModelTest.cpp - Seconds of kernels, against measured ones ---===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "simulate/ComputeModel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

using namespace fsdp;

namespace {

struct Measured {
  MatmulShape shape;
  double microseconds;
};

/// XLA's table of products in bf16 on a Hopper GPU (matmul_interpolator_data.h,
/// at 9bebee8).
constexpr Measured kProducts[] = {
    {{1, 512, 256, 256}, 5.36},      {{1, 512, 256, 512}, 6.4},
    {{1, 256, 1024, 256}, 5.23},     {{1, 2048, 256, 1024}, 7.73},
    {{1, 512, 4096, 256}, 7.68},     {{1, 1024, 2048, 256}, 7.63},
    {{1, 512, 1024, 1024}, 7.54},    {{1, 256, 512, 4096}, 6.74},
    {{1, 256, 1024, 4096}, 12.51},   {{1, 1024, 256, 4096}, 11.74},
    {{1, 4096, 1024, 256}, 9.97},    {{1, 1024, 512, 2048}, 9.33},
    {{1, 512, 4096, 512}, 8.96},     {{1, 256, 4096, 2048}, 12.9},
    {{1, 4096, 1024, 512}, 12.42},   {{1, 1024, 1024, 2048}, 11.65},
    {{1, 2048, 4096, 1024}, 28.93},  {{1, 4096, 1024, 4096}, 46.38},
    {{1, 1024, 4096, 4096}, 46.29},  {{1, 2048, 2048, 4096}, 46.29},
    {{2, 4096, 2048, 1024}, 50.42},  {{2, 4096, 512, 4096}, 47.07},
    {{2, 2048, 2048, 4096}, 90.8},   {{2, 4096, 4096, 2048}, 180.1},
    {{4, 4096, 2048, 256}, 37.38},   {{4, 2048, 512, 2048}, 27.54},
    {{4, 1024, 4096, 4096}, 177.76}, {{4, 4096, 4096, 4096}, 692.13},
    {{4, 2048, 4096, 4096}, 342.85}};

Work multiply(MatmulShape shape) {
  Work work;
  work.kind = WorkKind::matmul;
  work.dtype = plan::DType::bf16;
  work.kernels = 1;
  work.matmul = shape;
  auto [b, m, n, k] = shape;
  work.flops = 2.0 * double(b) * double(m) * double(n) * double(k);
  work.bytes = 2.0 * double(b) * double(m * k + k * n + m * n);
  return work;
}

Work move(double bytes, bool isFusible = false) {
  Work work;
  work.kind = WorkKind::elementwise;
  work.kernels = 1;
  work.bytes = bytes;
  work.isFusible = isFusible;
  return work;
}

TEST(ComputeModel, meetsMeasuredProducts) {
  Cluster cluster = Cluster::load("h100x8");
  // Each was measured alone, on a GPU that had not been working for long.
  cluster.device.sustained = 1;
  ComputeModel model(cluster);
  std::vector<double> errors;
  for (const Measured &each : kProducts)
    errors.push_back(std::abs(
        model.seconds(multiply(each.shape)) / (each.microseconds * 1e-6) - 1));
  std::ranges::sort(errors);
  EXPECT_LT(errors[errors.size() / 2], 0.06);
  EXPECT_LT(errors[errors.size() * 9 / 10], 0.16);
}

TEST(ComputeModel, neverBeatsTheRoofline) {
  for (std::string_view name : Cluster::names()) {
    Cluster cluster = Cluster::load(std::string(name));
    ComputeModel model(cluster);
    double rate = cluster.device.matmul.rates.at(plan::DType::bf16);
    double bandwidth =
        std::max(cluster.device.bandwidth, cluster.device.cacheBandwidth);
    for (const Measured &each : kProducts) {
      Work work = multiply(each.shape);
      EXPECT_GE(model.seconds(work), work.flops / rate) << name;
      EXPECT_GE(model.seconds(work), work.bytes / bandwidth) << name;
    }
  }
}

TEST(ComputeModel, growsWithEverySizeOfAProduct) {
  Cluster cluster = Cluster::load("a100x8");
  ComputeModel model(cluster);
  double before = 0;
  for (int64_t size : {64, 128, 256, 512, 1024, 2048, 4096, 8192}) {
    double seconds = model.seconds(multiply({1, size, size, size}));
    EXPECT_GE(seconds, before) << size;
    before = seconds;
  }
}

TEST(ComputeModel, movesBytesAtTheRateOfWhatHoldsThem) {
  Cluster cluster = Cluster::load("h100x8");
  ComputeModel model(cluster);
  const DeviceModel &device = cluster.device;
  double large = 64 * device.cache, small = device.cache / 2;
  EXPECT_DOUBLE_EQ(model.seconds(move(large)),
                   device.kernel + large / device.bandwidth);
  EXPECT_DOUBLE_EQ(model.seconds(move(small)),
                   device.kernel + small / device.cacheBandwidth);
}

TEST(ComputeModel, fusesChainsAlone) {
  Cluster cluster = Cluster::load("h100x8");
  double bytes = 64 * cluster.device.cache;
  ComputeModel model(cluster);
  double whole = model.seconds(move(bytes));
  cluster.device.elementwise = 0.25;
  EXPECT_DOUBLE_EQ(model.seconds(move(bytes, true)), whole / 4);
  EXPECT_DOUBLE_EQ(model.seconds(move(bytes)), whole);
  EXPECT_NEAR(model.memoryShare(move(bytes, true)),
              model.memoryShare(move(bytes)), 1e-9);
}

TEST(ComputeModel, chargesHalfOfTheRatesThatPowerLeaves) {
  Cluster cluster = Cluster::load("h100x8");
  cluster.device.matmul.seconds = 0;
  cluster.device.sustained = 1;
  ComputeModel model(cluster);
  Work work = multiply({1, 8192, 8192, 8192});
  double whole = model.seconds(work);
  cluster.device.sustained = 0.5;
  EXPECT_NEAR(model.seconds(work), 2 * whole, 1e-9);
}

} // namespace
