//===- TinyModel.h - One linear layer, planned by hand ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TEST_UNIT_RUNTIME_TINYMODEL_H
#define FSDP_TEST_UNIT_RUNTIME_TINYMODEL_H

#include "plan/plan_generated.h"
#include "runtime/launch/Launch.h"
#include "support/Optimizers.h"

#include <string>
#include <vector>

namespace fsdp::test {

using Optimizer = OptimizerKind;

/// loss = mse(x @ w.T, y) with a 5 x `in` weight, batches of 2, and the
/// optimizer on shards. Five rows fit no world size above 1.
struct TinyModel {
  static constexpr int64_t kOut = 5, kIn = 3, kBatch = 2;

  int worldSize = 1;
  /// Features. Of 16, a row fills cache lines, so that threads share the
  /// weight.
  int64_t in = kIn;
  Optimizer optimizer = Optimizer::adamw;
  double lr = 0.1, beta1 = 0.9, beta2 = 0.95, eps = 1e-8;
  double weightDecay = 0.1, momentum = 0.9;
  /// 0: no clipping.
  double maxGradNorm = 0;
  /// The prediction lies column by column, as no kernel makes it by itself.
  bool isTransposed = false;
  /// The file stores the weight column by column.
  bool isSourceStrided = false;
  bool hasSample = true;
  /// The prediction is an output beside the loss.
  bool keepsPrediction = false;
  /// false: rows of padding are reduced as they are.
  bool zeroesPadding = true;

  /// Writes `folder`/model.pt2 and `folder`/step.fsdp.
  void write(const std::string &folder) const;
  /// The same. Returns what runs them with ranks that are threads, one each.
  LaunchOptions writeForThreads(const std::string &folder) const;
  plan::PlanT makePlan() const;

  static std::vector<float> initialWeight(int64_t in = kIn);
  static std::vector<float> sampleX(int64_t in = kIn);
  static std::vector<float> sampleY();
};

/// The same training in float64, by plain loops.
struct TinyReference {
  explicit TinyReference(const TinyModel &model);
  /// x and y of all ranks, one batch after another.
  void step(const std::vector<float> &x, const std::vector<float> &y);

  TinyModel model;
  std::vector<double> weight, first, second;
  double loss = 0, gradNorm = 0;
  int steps = 0;
};

} // namespace fsdp::test

#endif // FSDP_TEST_UNIT_RUNTIME_TINYMODEL_H
