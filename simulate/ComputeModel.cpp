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

std::optional<double> ComputeModel::measuredProduct(const Work &work) const {
  auto [batch, m, n, k] = work.matmul;
  for (const MatmulTable &table : cluster.device.matmul.measured) {
    if (table.getDType() != work.dtype ||
        table.isTransposed() != work.isTransposed)
      continue;
    double one = table.at(double(m), double(n), double(k));
    // Only the first of a batch costs a call.
    double call = std::min(one, cluster.device.matmul.seconds);
    return call + double(batch) * (one - call);
  }
  return std::nullopt;
}

std::optional<double> ComputeModel::measured(const Work &work) const {
  const DeviceModel &device = cluster.device;
  if (work.onHost)
    return std::nullopt;
  if (work.kind == WorkKind::matmul)
    return measuredProduct(work);
  bool byFlops =
      work.kind == WorkKind::attention || work.kind == WorkKind::convolution;
  // Measured in f32, four bytes an element, of one tensor.
  double size = byFlops                       ? work.flops
                : dtypeBytes(work.dtype) == 2 ? 2 * work.bytes
                                              : work.bytes;
  // Each of a list costs a call; together they may be more than caches hold.
  auto tensors = double(work.tensors);
  auto of = [&](const Curve &curve) {
    return std::max(tensors * curve.at(size / tensors), curve.at(size));
  };
  auto found = device.operators.find(work.op);
  if (found != device.operators.end())
    return of(found->second);
  found = device.operators.find(getName(work.kind));
  if (found == device.operators.end() || byFlops)
    return std::nullopt;
  // Another of its kind, and what its own function takes beside.
  double beside = work.kind == WorkKind::elementwise
                      ? std::max(0.0, work.flops - work.bytes / 4)
                      : 0;
  return of(found->second) + beside / device.vectorRate;
}

double ComputeModel::seconds(const Work &work) const {
  if (work.kind == WorkKind::none)
    return 0;
  std::optional<double> known = measured(work);
  return known ? *known : modelled(work);
}

double ComputeModel::modelled(const Work &work) const {
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
           std::max(work.flops / (rate(work.dtype) * share * work.share),
                    memory);
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
