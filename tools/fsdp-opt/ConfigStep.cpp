//===- ConfigStep.cpp - Mode, step, device of the config -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/ConfigParser.h"

#include <charconv>
#include <cmath>
#include <limits>

using namespace fsdp;

void ConfigParser::parseMode(const Node &node) {
  static constexpr std::string_view choices[] = {"train", "inference"};
  result.config.mode = read.readChoice(node, "mode", choices) == choices[0]
                           ? Mode::Train
                           : Mode::Inference;
}

/// One file may serve training and inference: what only training needs does not
/// disturb.
void ConfigParser::checkMode(const Node &root) {
  if (result.config.mode != Mode::Inference)
    return;
  for (const char *key :
       {"optimizer", "lr_scheduler", "max_grad_norm",
        "gradient_accumulation_steps", "eval", "on_nonfinite", "loss_scale"})
    if (const Node node = root[key]; node.IsDefined() && !node.IsNull())
      addNote(node,
              "'" + std::string(key) + "' has no effect with mode: inference");
}

/// The artifact has 32 bits for it; each is a run of the whole program.
static constexpr int64_t kMostMicroBatches = 1 << 20;

void ConfigParser::parseAccumulation(const Node &node) {
  result.config.microBatches = static_cast<int64_t>(
      readPositive(node, "gradient_accumulation_steps", kMostMicroBatches));
}

void ConfigParser::parseSync(const Node &node) {
  static constexpr std::string_view choices[] = {"each", "last",
                                                 "all_reduce_last"};
  std::string name = read.readChoice(node, "gradient_sync", choices);
  result.config.sync = name == choices[0]   ? Sync::Each
                       : name == choices[1] ? Sync::Last
                                            : Sync::AllReduceLast;
}

void ConfigParser::parseReshardBackward(const Node &node) {
  result.config.keepGathered = !read.readBool(node, "reshard_after_backward");
}

void ConfigParser::checkMicroBatches() {
  const Config &config = result.config;
  // With one rank as well: the config then means the same on more.
  if (config.keepGathered && config.reshard != Reshard::None)
    read.fail(ErrorId::ConfigBadValue, (*fsdpNode)["reshard_after_backward"],
              "'reshard_after_backward: false' keeps parameters gathered from "
              "micro-batch to micro-batch, which needs reshard_after_forward: "
              "false");
  for (const ModuleOverride &override : config.overrides)
    if (config.keepGathered && !override.reshard.empty() &&
        override.reshard != "false" && override.reshard != "1")
      throw Error(ErrorId::ConfigBadValue,
                  override.place +
                      ": 'reshard_after_forward: " + override.reshard +
                      "' drops parameters after forward, and "
                      "'reshard_after_backward: false' keeps all of them; "
                      "leave one of them out");
  if (config.microBatches > 1)
    return;
  for (auto [key, isGiven] :
       {std::pair("reshard_after_backward", config.keepGathered),
        std::pair("gradient_sync", config.sync != Sync::Each)})
    if (isGiven)
      result.notes.push_back(
          read.describePlace((*fsdpNode)[key]) + ": '" + key +
          "' has no effect with one micro-batch a step; "
          "gradient_accumulation_steps says how many there are");
}

void ConfigParser::parseMaxGradNorm(const Node &node) {
  if (node.IsNull())
    return;
  double norm = read.readDouble(node, "max_grad_norm");
  if (norm <= 0)
    read.fail(ErrorId::ConfigBadValue, node,
              "'max_grad_norm': expected a number above 0, found " +
                  node.Scalar() + "; leave it out for no clipping");
  result.config.maxGradNorm = norm;
}

void ConfigParser::parseGradNormType(const Node &node) {
  // PyTorch users write float("inf") as inf; YAML's own word is .inf.
  bool isWord = node.IsScalar() && node.Scalar() == "inf";
  double order = isWord || node.Scalar() == ".inf"
                     ? std::numeric_limits<double>::infinity()
                     : read.readDouble(node, "grad_norm_type");
  if (order != 1 && order != 2 && !std::isinf(order))
    read.fail(ErrorId::ConfigBadValue, node,
              "'grad_norm_type': expected 1, 2 or inf, found " + node.Scalar());
  result.config.gradNormType = order;
}

void ConfigParser::parseLostGradients(const Node &node) {
  static constexpr std::string_view choices[] = {"error", "accept"};
  result.config.acceptLostGradients =
      read.readChoice(node, "lost_gradients", choices) == choices[1];
}

void ConfigParser::parseOnNonFinite(const Node &node) {
  static constexpr std::string_view choices[] = {"stop", "skip", "ignore"};
  std::string name = read.readChoice(node, "on_nonfinite", choices);
  result.config.onNonFinite = name == choices[0]   ? plan::NonFinite::stop
                              : name == choices[1] ? plan::NonFinite::skip
                                                   : plan::NonFinite::ignore;
}

void ConfigParser::parseLossScale(const Node &node) {
  if (node.IsNull())
    return;
  LossScaleConfig &scale = result.config.lossScale.emplace();
  if (node.IsMap())
    return parseSection("loss_scale", node);
  if (node.IsScalar() && node.Scalar() == "dynamic")
    return;
  parseScaleInit(node);
  scale.growthInterval = 0;
}

void ConfigParser::parseScaleInit(const Node &node) {
  double init = read.readDouble(node, "loss_scale");
  // What f32 holds; half of its powers of two are left to grow.
  if (!(init >= 0x1p-126 && init <= 0x1p127))
    read.fail(ErrorId::ConfigBadValue, node,
              "'loss_scale': expected 'dynamic', or a number above 0 that "
              "float32 holds, found " +
                  node.Scalar());
  result.config.lossScale->init = static_cast<float>(init);
}

void ConfigParser::parseScaleGrowth(const Node &node) {
  double factor = read.readDouble(node, "growth_factor");
  if (!(factor > 1) || !std::isfinite(factor))
    read.fail(ErrorId::ConfigBadValue, node,
              "'growth_factor': expected a number above 1, found " +
                  node.Scalar());
  result.config.lossScale->growthFactor = factor;
}

void ConfigParser::parseScaleBackoff(const Node &node) {
  double factor = read.readDouble(node, "backoff_factor");
  if (!(factor > 0 && factor < 1))
    read.fail(ErrorId::ConfigBadValue, node,
              "'backoff_factor': expected a number between 0 and 1, found " +
                  node.Scalar());
  result.config.lossScale->backoffFactor = factor;
}

void ConfigParser::parseScaleInterval(const Node &node) {
  // An f32 counts to it.
  result.config.lossScale->growthInterval =
      readRange(node, "growth_interval", 1, 1 << 24);
}

/// A scale that changes tries how far it can go: overflows are part of that.
void ConfigParser::checkLossScale(const Node &root) {
  Config &config = result.config;
  if (!config.lossScale || config.lossScale->growthInterval == 0)
    return;
  const Node node = root["on_nonfinite"];
  bool isGiven = node.IsDefined() && !node.IsNull();
  if (isGiven && config.onNonFinite != plan::NonFinite::skip)
    read.fail(ErrorId::ConfigBadValue, node,
              "'on_nonfinite: " + node.Scalar() +
                  "' does not go with a loss scale that changes, whose "
                  "overflows leave out their update: write skip, or a number "
                  "as loss_scale");
  config.onNonFinite = plan::NonFinite::skip;
}

void ConfigParser::parseDevice(const Node &node) {
  static constexpr std::string_view choices[] = {"cpu", "cuda"};
  if (read.readChoice(node, "device", choices) == "cuda")
    result.config.target.device = Target::Device::Cuda;
}

void ConfigParser::parseCudaArch(const Node &node) {
  std::string arch = read.readString(node, "cuda_arch");
  std::string_view digits = arch;
  int capability = 0;
  bool valid = digits.starts_with("sm_");
  if (valid) {
    digits.remove_prefix(3);
    auto [end, failure] = std::from_chars(
        digits.data(), digits.data() + digits.size(), capability);
    valid = failure == std::errc() && end == digits.data() + digits.size();
  }
  // What LibTorch's wheel has kernels for.
  if (!valid || capability < 75 || capability > 121)
    read.fail(ErrorId::ConfigBadValue, node,
              "'cuda_arch': expected a GPU's architecture from sm_75 to "
              "sm_121, such as sm_90, found '" +
                  arch + "'");
  result.config.target.capability = capability;
}

void ConfigParser::allow(bool plan::ArithmeticT::*what, bool is) {
  if (!is)
    return;
  if (!result.config.arithmetic)
    result.config.arithmetic.emplace();
  (*result.config.arithmetic).*what = true;
}

void ConfigParser::parseTf32(const Node &node) {
  if (node.IsNull())
    return;
  // Axolotl's: where the GPU has it, which others ignore anyway.
  bool isAuto = node.IsScalar() && node.Scalar() == "auto";
  allow(&plan::ArithmeticT::tf32, isAuto || read.readBool(node, "tf32"));
}

void ConfigParser::parseReducedReduction(const Node &node) {
  allow(&plan::ArithmeticT::reduced_precision_reduction,
        read.readBool(node, "reduced_precision_reduction"));
}

void ConfigParser::parseFp16Accumulation(const Node &node) {
  allow(&plan::ArithmeticT::fp16_accumulation,
        read.readBool(node, "fp16_accumulation"));
}

/// The device is known by now.
void ConfigParser::checkArithmetic(const Node &root) {
  if (result.config.target.device != Target::Device::Cpu)
    return;
  result.config.arithmetic.reset();
  for (const char *key :
       {"tf32", "reduced_precision_reduction", "fp16_accumulation"})
    if (const Node node = root[key];
        node.IsDefined() && !node.IsNull() &&
        !(YamlReader::isBool(node) && !read.readBool(node, key)))
      addNote(node,
              "'" + std::string(key) + "' has no effect with device: cpu");
}

void ConfigParser::parseSeed(const Node &node) {
  result.config.seed = read.readInt(node, "seed");
  if (result.config.seed < 0)
    read.fail(ErrorId::ConfigBadValue, node,
              "'seed': expected a number from 0, found " + node.Scalar());
}
