//===- ForeignDeepSpeed.cpp - Values of DeepSpeed's files -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/config/ForeignDeepSpeed.h"

#include "tools/fsdp-opt/config/Fields.h"
#include "tools/fsdp-opt/config/Foreign.h"
#include "tools/fsdp-opt/config/ForeignKeys.h"
#include "tools/fsdp-opt/config/ForeignReaders.h"
#include "tools/fsdp-opt/config/Tables.h"

#include <algorithm>
#include <cmath>

using namespace fsdp;

/// What a key of this project would read.
static void readAs(const char *path, const Value &value) {
  value.reading.take(path, {YAML::Node(value.key), value.node, true});
  getTopLevel().readAt(path, value, value.reading.result.config);
  value.reading.become(path, value.node);
}

static void warn(const Value &value, const std::string &why) {
  value.reading.classify(KeyOutcome::Warned, why);
  value.reading.addWarning(value.node, "'" + value.key + "' " + why);
}

[[noreturn]] static void refuse(const Value &value, const std::string &why) {
  value.reader().fail(ErrorId::ConfigNotSupported, value.node,
                      "'" + value.key + ": " + value.node.Scalar() +
                          "' cannot be had: " + why);
}

void deepspeed::readAuto(const Value &value) {
  warn(value, "is left to the Trainer's arguments, which are not here: say it "
              "in this project's keys where its default is not meant");
}

//===----------------------------------------------------------------------===//
// ZeRO
//===----------------------------------------------------------------------===//

void deepspeed::readStage(const Value &value) {
  Reading &reading = value.reading;
  Config &config = reading.result.config;
  switch (between(0, 3).read(value)) {
  case 0:
    // Ranks are replicas, as FSDP1 calls it.
    reading.strategy = "NO_SHARD";
    reading.isStrategyBeside = true;
    config.reshard = Reshard::None;
    return reading.addNote(value.node, "'stage: 0' keeps parameters whole");
  case 1:
  case 2:
    config.reshard = Reshard::None;
    reading.becomeValue("fsdp_config.reshard_after_forward", false);
    return reading.addNote(
        value.node,
        "'stage: " + value.node.Scalar() +
            "' is nearest to reshard_after_forward: false: parameters are "
            "sharded between steps, too, and gathered once in each" +
            (value.node.Scalar() == "1" ? "; gradients are sharded as well"
                                        : ""));
  default:
    config.reshard = Reshard::All;
    reading.becomeValue("fsdp_config.reshard_after_forward", true);
  }
}

/// "cpu", "nvme" or none; of parameters or of the optimizer.
static void readOffloadDevice(const Value &value, bool isOfParams) {
  static constexpr std::string_view words[] = {"none", "cpu", "nvme"};
  std::string device = value.reader().readChoice(value.node, value.key, words);
  if (device == "nvme")
    refuse(value, "nothing lies on disks; write cpu");
  if (device == "none")
    return value.reading.classify(KeyOutcome::Nothing, "asks for nothing");
  Config &config = value.reading.result.config;
  // Parameters on the host have their states there.
  (isOfParams ? config.offloadParams : config.offloadOptimizer) = true;
  if (config.offloadParams) {
    config.offloadOptimizer = false;
    value.reading.forget("fsdp_config.offload_optimizer");
    value.reading.becomeValue("fsdp_config.offload_params", true);
  } else {
    value.reading.becomeValue("fsdp_config.offload_optimizer", true);
  }
}

void deepspeed::readOptimizerDevice(const Value &value) {
  readOffloadDevice(value, false);
}
void deepspeed::readParamsDevice(const Value &value) {
  readOffloadDevice(value, true);
}

void deepspeed::readSecondary(const Value &value) {
  int64_t ranks = between(1, kMostRanks).read(value);
  if (ranks == 1)
    return value.reading.classify(KeyOutcome::Nothing, "asks for nothing");
  value.reading.result.config.reshard = Reshard::All;
  value.reading.result.config.reshardRanks = ranks;
  value.reading.becomeValue("fsdp_config.reshard_after_forward", ranks);
}

void deepspeed::readMics(const Value &value) {
  int64_t ranks = Whole{.least = -1, .most = kMostRanks}.read(value);
  if (ranks <= 0)
    return value.reading.classify(KeyOutcome::Nothing, "asks for nothing");
  readAs("mesh.dp_shard", value);
}

//===----------------------------------------------------------------------===//
// Element types
//===----------------------------------------------------------------------===//

void deepspeed::readBf16(const Value &value) {
  if (!isEnabled(value.node) && !isAuto(value.node["enabled"]))
    return value.reading.classify(KeyOutcome::Nothing, "asks for nothing");
  YAML::Node fp16 = value.reading.root["fp16"];
  if (isEnabled(fp16 ? fp16 : YAML::Node()))
    value.fail("'fp16' is enabled, too; keep one");
  if (isAuto(value.node["enabled"]))
    warn(value, "is left to the Trainer's arguments, and taken as enabled");
  foreign::takePrecision(value, "bfloat16", value.key);
}

/// With its scale of the loss.
void deepspeed::readFp16(const Value &value) {
  if (!isEnabled(value.node)) {
    // Beside bf16, which is.
    if (isAuto(value.node["enabled"]))
      return value.reading.classify(KeyOutcome::Nothing,
                                    "auto: bf16 counts where it is enabled");
    return value.reading.classify(KeyOutcome::Nothing, "asks for nothing");
  }
  Reading &reading = value.reading;
  foreign::takePrecision(value, "float16", value.key);
  LossScaleConfig &scale = open(reading.result.config.lossScale);
  auto number = [&](const char *key, const Number &format,
                    double initial) -> double {
    YAML::Node node = value.node[key];
    return node && !node.IsNull()
               ? format.read({reading, value.path, key, node})
               : initial;
  };
  constexpr Number power = {[](double x) { return x >= 0 && x <= 126; },
                            "from 0 to 126"};
  constexpr Number window = {[](double x) { return x >= 1 && x <= (1 << 24); },
                             "from 1 to 16777216"};
  double fixed = number("loss_scale", kFromZero, 0);
  reading.forget("loss_scale");
  if (fixed != 0) {
    scale.init = fixed;
    scale.growthInterval = 0;
    return reading.becomeValue("loss_scale", printNumber(fixed));
  }
  scale.init = std::exp2(number("initial_scale_power", power, 16));
  scale.growthInterval =
      static_cast<int64_t>(number("loss_scale_window", window, 1000));
  reading.becomeValue("loss_scale.init", printNumber(scale.init));
  reading.becomeValue("loss_scale.growth_interval", scale.growthInterval);
  if (number("hysteresis", kFromZero, 2) > 1)
    reading.addNote(value.node, "'hysteresis' is 1: the scale is cut at the "
                                "first overflow");
}

/// What gradients travel in.
void deepspeed::readWire(const Value &value) {
  static constexpr std::pair<std::string_view, std::string_view> words[] = {
      {"fp16", "float16"},
      {"bf16", "bfloat16"},
      {"bfp16", "bfloat16"},
      {"fp32", "float32"}};
  std::string word = value.reader().readString(value.node, value.key);
  const auto *it = std::ranges::find(
      words, word, &std::pair<std::string_view, std::string_view>::first);
  if (it == std::end(words))
    value.failRange("fp16, bf16 or fp32");
  value.reading.wireDType = it->second;
}

void fsdp::applyWire(Reading &reading) {
  if (reading.wireDType.empty())
    return;
  reading.result.config.precision.policy.reduceDtype = reading.wireDType;
  reading.becomeValue("fsdp_config.mixed_precision.reduce_dtype",
                      reading.wireDType);
}

//===----------------------------------------------------------------------===//
// Optimizer and rate
//===----------------------------------------------------------------------===//

void deepspeed::readOptimizerType(const Value &value) {
  std::string word = value.reader().readString(value.node, value.key);
  YAML::Node params = value.reading.root["optimizer"]["params"];
  bool isPlain = false;
  if (params && params.IsMap())
    if (YAML::Node mode = params["adam_w_mode"]; mode && isOff(mode))
      isPlain = true;
  OptimizerKind kind;
  if (word == "AdamW" || word == "adamw")
    kind = OptimizerKind::adamw;
  else if (word == "Adam" || word == "adam")
    // DeepSpeed's own decays weights as AdamW does unless it is told.
    kind = isPlain ? OptimizerKind::adam : OptimizerKind::adamw;
  else if (word == "SGD" || word == "sgd")
    kind = OptimizerKind::sgd;
  else
    refuse(value, "expected AdamW, Adam or SGD; 1-bit, 0/1 and LAMB optimizers "
                  "are not there");
  value.reading.result.config.optimizer.kind = kind;
  std::string name(getFacts(kind).name);
  value.reading.becomeValue("optimizer.name", name);
  if (!params || !params["weight_decay"]) {
    value.reading.result.config.optimizer
        .numbers[OptimizerNumber::weight_decay] = 0;
    value.reading.becomeValue("optimizer.weight_decay", 0);
  }
}

void deepspeed::readAutoRate(const Value &value) {
  if (value.reading.root["learning_rate"])
    return value.reading.classify(KeyOutcome::Nothing, "learning_rate says it");
  refuse(value, "the Trainer's arguments are not here; write a number");
}

namespace {
struct Schedule {
  std::string_view type;
  ScheduleKind kind;
};
constexpr Schedule kSchedules[] = {{"WarmupLR", ScheduleKind::constant},
                                   {"WarmupDecayLR", ScheduleKind::linear},
                                   {"WarmupCosineLR", ScheduleKind::cosine}};
} // namespace

static std::string nameOf(ScheduleKind kind) {
  return kind == ScheduleKind::constant ? "constant_with_warmup"
         : kind == ScheduleKind::linear ? "linear"
                                        : "cosine";
}

void deepspeed::readScheduleType(const Value &value) {
  std::string word = value.reader().readString(value.node, value.key);
  const Schedule *it = std::ranges::find(kSchedules, word, &Schedule::type);
  if (it == std::end(kSchedules))
    refuse(value, "expected WarmupLR, WarmupDecayLR or WarmupCosineLR");
  Reading &reading = value.reading;
  reading.take("lr_scheduler",
               {YAML::Node(value.key), YAML::Node(nameOf(it->kind)), true});
  plan::ScheduleT &schedule = open(reading.result.config.schedule);
  schedule.kind = uint8_t(it->kind);
  YAML::Node params = reading.root["scheduler"]["params"];
  bool hasParams = params && params.IsMap();
  if (!hasParams || !params["warmup_num_steps"])
    schedule.warmup_steps = 1000; // DeepSpeed's default
  if (it->kind != ScheduleKind::cosine &&
      (!hasParams || !params["warmup_type"]))
    reading.addWarning(value.node, "'" + value.key + ": " + word +
                                       "' warms up along a logarithm in "
                                       "DeepSpeed, and along a line here; "
                                       "warmup_type: linear is the same in "
                                       "both");
}

void deepspeed::readWarmupType(const Value &value) {
  static constexpr std::string_view words[] = {"log", "linear"};
  if (value.reader().readChoice(value.node, value.key, words) == "log")
    refuse(value, "rates grow along a line; write linear");
}

/// The rate that a schedule grows to, which there goes before the optimizer's.
void deepspeed::readMaxRate(const Value &value) {
  Reading &reading = value.reading;
  double rate = kFromZero.read(value);
  YAML::Node optimizer = reading.root["optimizer"];
  YAML::Node params =
      optimizer && optimizer.IsMap() ? optimizer["params"] : YAML::Node();
  YAML::Node lr = params && params.IsMap() ? params["lr"] : YAML::Node();
  if (lr && YamlReader::isNumber(lr) && lr.as<double>() != rate)
    value.fail("expected the rate of optimizer.params, " + lr.Scalar() +
               ", found " + value.node.Scalar() +
               "; in DeepSpeed this one counts: write it there, too");
  if (!lr)
    readAs("optimizer.lr", value);
}

void deepspeed::readMinRate(const Value &value) {
  if (kFromZero.read(value) != 0)
    refuse(value, "rates grow from 0");
}

void deepspeed::readMinRatio(const Value &value) {
  value.reading.isMinOfAll = true;
  foreign::readMinRate(value);
}

//===----------------------------------------------------------------------===//
// The step
//===----------------------------------------------------------------------===//

/// Of all ranks; with the other two numbers it says nothing more.
void deepspeed::readBatch(const Value &value) {
  if (value.reading.root["gradient_accumulation_steps"])
    return value.reading.classify(
        KeyOutcome::PassedOver,
        "gradient_accumulation_steps says how many micro-batches a step has");
  warn(value, "is not taken from here: gradient_accumulation_steps says how "
              "many micro-batches a step has, this number by that of the rows "
              "of all ranks");
}

void deepspeed::readCheckpointing(const Value &value) {
  YAML::Node onHost = value.node["cpu_checkpointing"];
  if (onHost && !isOff(onHost)) {
    value.reading.result.config.offloadActivations = {"*"};
    value.reading.becomeValue("fsdp_config.activation_offloading", true);
  }
  value.reading.addMinor(
      value.node, "'" + value.key +
                      "' says how what the model checkpoints is kept; "
                      "fsdp_config: {activation_checkpointing: true} asks for "
                      "it without the model");
}
