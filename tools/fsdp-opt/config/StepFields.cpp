//===- StepFields.cpp - The training step in the config -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/config/Tables.h"

#include <cmath>
#include <limits>

using namespace fsdp;

//===----------------------------------------------------------------------===//
// Loss scale
//===----------------------------------------------------------------------===//

/// Half of the powers of two of f32 are left to grow.
static constexpr Number kScale = {
    [](double x) { return x >= 0x1p-126 && x <= 0x1p127; },
    "above 0 that float32 holds"};

static void readScale(const Value &value, LossScaleConfig &scale) {
  scale.init = static_cast<float>(kScale.read(value));
}

/// A number stays; "dynamic" has the defaults.
static void readScaleWord(const Value &value, LossScaleConfig &scale) {
  if (value.node.Scalar() == "dynamic")
    return;
  if (!YamlReader::isNumber(value.node))
    value.failType("'dynamic', a number or a map");
  double init = value.reader().readDouble(value.node, value.key);
  if (!kScale.holds(init))
    value.failRange("'dynamic', or a " + kScale.describe());
  scale.init = static_cast<float>(init);
  scale.growthInterval = 0;
}

static const Table<LossScaleConfig> &getLossScale() {
  static const Table<LossScaleConfig> table = {
      "loss_scale",
      {
          {"init", readScale, kScale.describe(),
           "`" + printNumber(LossScaleConfig().init) + "`", "the first scale"},
          {"growth_factor", &LossScaleConfig::growthFactor,
           Number{[](double x) { return x > 1; }, "above 1"},
           "by what the scale grows"},
          {"backoff_factor", &LossScaleConfig::backoffFactor,
           Number{[](double x) { return x > 0 && x < 1; }, "between 0 and 1"},
           "by what it is cut where gradients overflow"},
          // An f32 counts to it.
          {"growth_interval", &LossScaleConfig::growthInterval,
           between(1, 1 << 24), "updates in a row until it grows"},
      }};
  return table;
}

//===----------------------------------------------------------------------===//
// The step
//===----------------------------------------------------------------------===//

/// PyTorch users write float("inf") as inf; YAML's own word is .inf.
struct NormOrder {
  double read(const Value &value) const {
    bool isInf = value.node.IsScalar() && (value.node.Scalar() == "inf" ||
                                           value.node.Scalar() == ".inf");
    double order = isInf ? std::numeric_limits<double>::infinity()
                         : value.reader().readDouble(value.node, value.key);
    if (order != 1 && order != 2 && !std::isinf(order))
      value.failRange("1, 2 or inf");
    return order;
  }
  std::string describe() const { return "`1`, `2` or `inf`"; }
  std::string print(double order) const {
    return "`" + printNumber(order) + "`";
  }
};

std::vector<Field<Config>> fsdp::getStepFields() {
  const Choice<bool> means = {{{"batches", false}, {"tokens", true}}};
  const Choice<bool> lost = {{{"error", false}, {"accept", true}}};
  return {
      {"mode",
       &Config::mode,
       "whether the step trains the model or only computes what it returns",
       {.absent = "see [below](#training-or-inference)"}},
      getOptimizerField(),
      getSchedulerField(),
      getFloat8Field(),
      getQuantizeField(),
      getAdapterField(),
      // The artifact has 32 bits for it; each is a run of the whole program.
      {"gradient_accumulation_steps", &Config::microBatches,
       between(1, 1 << 20),
       "micro-batches of a step, whose gradients are summed before the "
       "optimizer takes their mean. See [below](#micro-batches)"},
      {"max_grad_norm",
       &Config::maxGradNorm,
       aboveZero("leave it out for no clipping"),
       "gradients are scaled so that their norm over all parameters is at most "
       "this, as `torch.nn.utils.clip_grad_norm_` does",
       {.absent = "no clipping", .mayBeEmpty = true}},
      {"grad_norm_type", &Config::gradNormType, NormOrder(),
       "order of that norm, and of the `grad_norm` of the metrics"},
      {"on_nonfinite", &Config::onNonFinite,
       "what happens where the loss or the norm of the gradients is NaN or "
       "infinite, [see below](#losses-that-are-nan)"},
      {"loss_normalization", &Config::weighsLoss, means,
       "of what a step's loss and gradients are the mean: `batches`, those of "
       "ranks and micro-batches, each of which counts as much; `tokens`, "
       "all labels that count in them, [see below](#means-over-labels)"},
      getEmaField(),
      getMetricsField(),
      {"neftune_noise_alpha", &Config::noiseAlpha, kFromZero,
       "noise on what the embedding of tokens gives, in steps of training: "
       "uniform up to this number / sqrt(tokens of a row * width), as "
       "transformers' NEFTune; `0`: none. Drawn as dropout is, anew in each "
       "micro-batch; validation has none"},
      {"lost_gradients", &Config::acceptLostGradients, lost,
       "what happens where the gradients are not PyTorch's, since the export "
       "left something out, [see below](#lost-gradients)"},
      section<Config>(
          "loss_scale", &Config::lossScale, getLossScale(),
          "what the loss is multiplied by before it is differentiated, so that "
          "gradients in float16 do not vanish; norms, clipping and the "
          "optimizer see gradients without it. `dynamic` changes it as "
          "`torch.amp.GradScaler` does, from its defaults: cut where a step's "
          "gradients overflow, which leaves its update out (`on_nonfinite: "
          "skip` is then the only policy), grown after so many updates in a "
          "row; a map says how. A number stays. The metric `loss_scale` says "
          "what a step had, the scale is part of checkpoints. A scale at which "
          "the square of a gradient's norm overflows float32 counts as too "
          "large, too",
          {.absent = "the loss is not scaled",
           .type = "`dynamic`, a number or a map",
           .mayBeEmpty = true},
          std::function(readScaleWord)),
      {"seed", &Config::seed, from(0),
       "where the random sequences of dropout and its kin begin, one sequence "
       "for each rank, going on from step to step; and what first values are "
       "drawn from"},
  };
}
