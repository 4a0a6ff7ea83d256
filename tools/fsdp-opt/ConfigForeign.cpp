//===- ConfigForeign.cpp - Keys of Axolotl and Accelerate ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Keys of other tools whose meaning a config can have under another name. Those
// that have none are in ForeignKeys.cpp.
//
//===----------------------------------------------------------------------===//

#include "runtime/plan/Schedule.h"
#include "tools/fsdp-opt/ConfigParser.h"

#include <limits>

using namespace fsdp;

//===----------------------------------------------------------------------===//
// Optimizer
//===----------------------------------------------------------------------===//

/// `optimizer: adamw_torch_fused`, as transformers' Trainer calls it.
void ConfigParser::parseOptimizerWord(const Node &node) {
  static constexpr std::pair<std::string_view, std::string_view> words[] = {
      {"adamw_torch", "adamw"}, {"adamw_torch_fused", "adamw"}, {"sgd", "sgd"}};
  OptimizerConfig &optimizer = result.config.optimizer;
  for (auto &[word, name] : words) {
    if (node.Scalar() != word)
      continue;
    optimizer.name = name;
    optimizer.weightDecay = 0;
    optimizerWord.emplace(node);
    addNote(node, "'optimizer: " + std::string(word) +
                      "' is taken as optimizer: {name: " + std::string(name) +
                      ", weight_decay: 0}, transformers' defaults");
    return;
  }
  read.failType(node, "optimizer",
                "a map such as {name: adamw, lr: 1.0e-3}, or adamw_torch, "
                "adamw_torch_fused or sgd as in transformers");
}

void ConfigParser::parseAdamBeta1(const Node &node) {
  result.config.optimizer.beta1 = readBeta(node, "adam_beta1");
}

void ConfigParser::parseAdamBeta2(const Node &node) {
  result.config.optimizer.beta2 = readBeta(node, "adam_beta2");
}

/// What Accelerate makes of it under FSDP2 (accelerate,
/// utils/dataclasses.py, FullyShardedDataParallelPlugin.set_mixed_precision):
/// parameters, reductions and outputs in one type. Axolotl's `bf16` sets it.
void ConfigParser::parseForeignPrecision(const Node &node) {
  std::string text = node.IsScalar() ? node.Scalar() : "";
  if (text == "fp16")
    return takeForeignPrecision(node, "float16");
  if (text != "bf16" && text != "true" && text != "True" && text != "auto")
    read.failType(node, "mixed_precision", "no, bf16 or fp16");
  takeForeignPrecision(node, "bfloat16");
}

/// Axolotl's and transformers'.
void ConfigParser::parseForeignFp16(const Node &node) {
  if (!read.readBool(node, "fp16"))
    return;
  takeForeignPrecision(node, "float16");
}

void ConfigParser::takeForeignPrecision(const Node &node,
                                        const std::string &dtype) {
  PrecisionPolicy &precision = result.config.precision.policy;
  precision.paramDtype = precision.reduceDtype = precision.outputDtype = dtype;
  bool isScaled = dtype == "float16";
  if (isScaled && !result.config.lossScale)
    result.config.lossScale.emplace();
  addNote(node, "'" + node.Scalar() + "' stands for {param_dtype: " + dtype +
                    ", reduce_dtype: " + dtype + ", output_dtype: " + dtype +
                    "}" + (isScaled ? " with loss_scale: dynamic" : "") +
                    ", as in Accelerate");
}

/// transformers leaves biases and norms out of it, which patterns must say
/// here.
void ConfigParser::parseForeignDecay(const Node &node) {
  if (readAmount(node, "weight_decay") != 0)
    read.fail(ErrorId::ConfigNotSupported, node,
              "'weight_decay' spares biases and norms in transformers; say so "
              "with optimizer: {weight_decay: " +
                  node.Scalar() +
                  ", groups: [{params: [\"*bias\", \"*norm*\"], "
                  "weight_decay: 0.0}]}");
  noDecay = true;
}

//===----------------------------------------------------------------------===//
// Schedule
//===----------------------------------------------------------------------===//

void ConfigParser::parseForeignWarmupSteps(const Node &node) {
  foreignWarmup.emplace(node);
  foreignSchedule.warmup_steps =
      static_cast<uint64_t>(readCount(node, "warmup_steps"));
}

void ConfigParser::parseForeignWarmupRatio(const Node &node) {
  foreignWarmup.emplace(node);
  foreignSchedule.warmup_ratio = readAmount(node, "warmup_ratio");
}

/// -1 says that epochs count.
void ConfigParser::parseMaxSteps(const Node &node) {
  if (int64_t steps = readRange(
          node, "max_steps", std::numeric_limits<int64_t>::min(), kMostSteps);
      steps > 0)
    foreignSchedule.total_steps = static_cast<uint64_t>(steps);
}

/// Puts warm-up and total beside the scheduler that they belong to.
void ConfigParser::mergeSchedule() {
  std::optional<plan::ScheduleT> &schedule = result.config.schedule;
  bool warms =
      foreignSchedule.warmup_steps != 0 || foreignSchedule.warmup_ratio != 0;
  if (!schedule) {
    if (warms)
      read.fail(ErrorId::ConfigMissingKey, *foreignWarmup,
                "a warm-up needs lr_scheduler, such as cosine or "
                "constant_with_warmup");
    return;
  }
  if (warms && schedulerName == "constant") {
    addNote(*foreignWarmup, "a warm-up has no effect with lr_scheduler: "
                            "constant, as in transformers; "
                            "constant_with_warmup has one");
  } else if (warms) {
    if (schedule->warmup_steps != 0 || schedule->warmup_ratio != 0)
      read.fail(ErrorId::ConfigBadValue, *foreignWarmup,
                "the warm-up is given in lr_scheduler, too; keep one");
    // As transformers: steps count if both are given.
    if (foreignSchedule.warmup_steps != 0)
      schedule->warmup_steps = foreignSchedule.warmup_steps;
    else
      schedule->warmup_ratio = foreignSchedule.warmup_ratio;
  }
  if (schedule->total_steps == 0)
    schedule->total_steps = foreignSchedule.total_steps;
}

//===----------------------------------------------------------------------===//
// Mesh
//===----------------------------------------------------------------------===//

void ConfigParser::parseProcesses(const Node &node) {
  processes = readCount(node, "num_processes", kMostRanks);
  if (*processes < 1)
    read.fail(ErrorId::ConfigBadValue, node,
              "'num_processes': expected a number from 1, found " +
                  node.Scalar());
}

//===----------------------------------------------------------------------===//
// Sizes that the export fixed
//===----------------------------------------------------------------------===//

std::optional<StatedSize> ConfigParser::readStatedSize(const Node &node,
                                                       std::string_view key) {
  if (node.IsNull())
    return std::nullopt;
  return StatedSize{static_cast<int64_t>(readPositive(node, key)),
                    std::string(key), read.describePlace(node)};
}

void ConfigParser::parseStatedRows(const Node &node) {
  if (auto stated = readStatedSize(node, "micro_batch_size"))
    result.rows = std::move(stated);
}

void ConfigParser::parseStatedTokens(const Node &node) {
  if (auto stated = readStatedSize(node, "sequence_len"))
    result.tokens = std::move(stated);
}

//===----------------------------------------------------------------------===//
// FSDP1
//===----------------------------------------------------------------------===//

/// transformers' and older Axolotl's: words, as a list or with spaces between.
void ConfigParser::parseFsdpWord(const Node &node) {
  if (node.IsNull() || (node.IsScalar() && node.Scalar().empty()) ||
      (node.IsSequence() && !node.size()))
    return;
  std::vector<std::string> words;
  for (std::string text : read.readStrings(node, "fsdp"))
    for (size_t begin = 0, end; begin < text.size(); begin = end + 1) {
      end = std::min(text.find(' ', begin), text.size());
      if (end > begin)
        words.push_back(text.substr(begin, end - begin));
    }
  for (const std::string &word : words) {
    if (word == "auto_wrap")
      continue;
    if (word == "full_shard") {
      // What fsdp_config says counts, wherever it stands.
      if (!taken.contains("fsdp_config.reshard_after_forward"))
        result.config.reshard = Reshard::All;
      continue;
    }
    read.fail(ErrorId::ConfigNotSupported, node,
              "'fsdp' cannot be had with '" + word +
                  "'; say it with fsdp_config, such as {reshard_after_forward: "
                  "false}");
  }
  addMinor(node, "'fsdp' is taken as fsdp_config");
}

/// A name, or its number in torch.distributed.fsdp.ShardingStrategy.
void ConfigParser::parseStrategy(const Node &node) {
  static constexpr std::string_view names[] = {"FULL_SHARD", "SHARD_GRAD_OP",
                                               "NO_SHARD", "HYBRID_SHARD",
                                               "_HYBRID_SHARD_ZERO2"};
  std::string name;
  if (YamlReader::isInt(node)) {
    int64_t number = read.readInt(node, "sharding_strategy");
    if (number < 1 || number > 5)
      read.fail(ErrorId::ConfigBadValue, node,
                "'sharding_strategy': expected a name or a number from 1 to 5, "
                "found " +
                    node.Scalar());
    name = names[number - 1];
  } else if (node.IsScalar() && node.Scalar() == "HYBRID_SHARD_ZERO2") {
    name = "_HYBRID_SHARD_ZERO2";
  } else {
    name = read.readChoice(node, "sharding_strategy", names);
  }
  strategyNode.emplace(node);
  strategy = name;
  bool keeps = name == "SHARD_GRAD_OP" || name == "_HYBRID_SHARD_ZERO2" ||
               name == "NO_SHARD";
  result.config.reshard = keeps ? Reshard::None : Reshard::All;
}

/// Once mesh and world are known.
void ConfigParser::applyStrategy() {
  if (!strategyNode)
    return;
  Config &config = result.config;
  std::string became = config.reshard == Reshard::All
                           ? "reshard_after_forward: true"
                           : "reshard_after_forward: false";
  bool hybrid = strategy.find("HYBRID") != std::string::npos;
  if (strategy == "NO_SHARD") {
    // All ranks are replicas, whether the mesh says so or not.
    bool isSharded = dpShard && *dpShard > 1;
    int64_t ranks = world ? *world : config.dpReplicate;
    if (isSharded || (config.dpReplicate > 1 && config.dpReplicate != ranks))
      read.fail(ErrorId::ConfigBadValue, *strategyNode,
                "'sharding_strategy: NO_SHARD' contradicts the mesh; leave one "
                "of them out");
    dpShard = 1;
    config.dpReplicate = ranks;
    became = "mesh: {dp_shard: 1, dp_replicate: " + std::to_string(ranks) + "}";
  } else if (hybrid && config.dpReplicate == 1) {
    read.fail(ErrorId::ConfigMissingKey, *strategyNode,
              "'sharding_strategy: " + strategy +
                  "' needs mesh: {dp_replicate: N}, the number of replicas "
                  "(FSDP1: of machines)");
  } else if (hybrid) {
    became +=
        " with mesh: {dp_replicate: " + std::to_string(config.dpReplicate) +
        "}";
  } else if (config.dpReplicate > 1) {
    read.fail(ErrorId::ConfigBadValue, *strategyNode,
              "'sharding_strategy: " + strategy +
                  "' has no replicas and the mesh has " +
                  std::to_string(config.dpReplicate) +
                  "; write HYBRID_SHARD or _HYBRID_SHARD_ZERO2");
  }
  addNote(*strategyNode,
          "'sharding_strategy: " + strategy + "' became " + became);
}
