//===- ComputeModel.cpp - Seconds of kernels ------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "simulate/ComputeModel.h"

#include "plan/DType.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace fsdp;

/// Of products; types that the device does not name compute as f32.
double ComputeModel::rate(plan::DType dtype) const {
  const auto &rates = cluster.device.matmul.rates;
  auto found = rates.find(dtype);
  if (found == rates.end())
    found = rates.find(plan::DType::f32);
  double peak = found == rates.end() ? rates.begin()->second : found->second;
  return peak * cluster.device.sustained;
}

double ComputeModel::bandwidth(const Work &work) const {
  if (work.onHost)
    return cluster.host.bandwidth;
  const DeviceModel &device = cluster.device;
  return work.bytes <= device.cache ? device.cacheBandwidth : device.bandwidth;
}

/// The best of the tiles and splits of the sum: whole waves of tiles, each of
/// which costs its columns and a ramp. Fitted to measured products, this is
/// within 5 % on average (docs/Rationale/Simulate.md).
double ComputeModel::multiply(const Work &work) const {
  const MatmulModel &model = cluster.device.matmul;
  auto [batch, m, n, k] = work.matmul;
  if (work.flops == 0)
    return model.seconds;
  double unitRate = rate(work.dtype) * model.efficiency / model.units;
  double memory = work.bytes / bandwidth(work);
  double best = std::numeric_limits<double>::max();
  for (const MatmulTile &tile : model.tiles)
    for (int split = 1; split <= (model.splits ? 8 : 1); split *= 2) {
      double depth = double(k) / split;
      if (split > 1 && depth < 256)
        break;
      double tiles = double(batch) * std::ceil(double(m) / tile.rows) *
                     std::ceil(double(n) / tile.columns) * split;
      double waves = std::ceil(tiles / model.units);
      double seconds = waves * 2 * tile.rows * tile.columns *
                       (depth + model.ramp) / (unitRate * tile.efficiency);
      // Partial sums are written and read in f32.
      if (split > 1)
        seconds += double(batch) * double(m) * double(n) * 8 * split /
                   cluster.device.bandwidth;
      best = std::min(best, std::max(seconds, memory));
    }
  return model.seconds + best;
}

double ComputeModel::seconds(const Work &work) const {
  const DeviceModel &device = cluster.device;
  double memory = work.bytes / bandwidth(work);
  switch (work.kind) {
  case WorkKind::none:
    return 0;
  case WorkKind::matmul:
    return multiply(work);
  case WorkKind::attention: {
    double share =
        work.isBackward ? device.attentionBackward : device.attentionForward;
    return work.kernels * device.kernel +
           std::max(work.flops / (rate(work.dtype) * share), memory);
  }
  case WorkKind::convolution:
    return work.kernels * device.kernel +
           std::max(work.flops / (rate(work.dtype) * device.convolution),
                    memory);
  default: {
    // A fused kernel computes what its parts do, and begins once.
    double share = work.isFusible ? device.elementwise : 1;
    return share * work.kernels * device.kernel +
           std::max(work.flops / device.vectorRate, share * memory);
  }
  }
}

double ComputeModel::memoryShare(const Work &work) const {
  double time = seconds(work);
  if (work.onHost || time == 0)
    return 0;
  double share = work.isFusible ? cluster.device.elementwise : 1;
  return std::min(1.0, share * work.bytes / bandwidth(work) / time);
}
