//===- ForeignSharding.cpp - Other tools' keys of the mesh and FSDP -------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/config/Fields.h"
#include "tools/fsdp-opt/config/Foreign.h"
#include "tools/fsdp-opt/config/ForeignKeys.h"
#include "tools/fsdp-opt/config/ForeignReaders.h"
#include "tools/fsdp-opt/config/Names.h"

#include <algorithm>

using namespace fsdp;

//===----------------------------------------------------------------------===//
// Mesh
//===----------------------------------------------------------------------===//

void foreign::readProcesses(const Value &value) {
  int64_t processes = between(1, kMostRanks).read(value);
  if (!value.reading.world)
    value.reading.world = processes;
}

void foreign::readUseCpu(const Value &value) {
  if (!Flag().read(value))
    return;
  value.reading.result.config.target.device = Target::Device::Cpu;
  value.reading.becomeValue("device", "cpu");
}

/// Accelerate's: of which engine its ranks are.
void foreign::readDistributedType(const Value &value) {
  static constexpr std::string_view words[] = {"FSDP", "DEEPSPEED", "MULTI_GPU",
                                               "MULTI_CPU", "NO"};
  std::string word = value.reader().readString(value.node, value.key);
  if (std::ranges::find(words, word) == std::end(words))
    value.reader().fail(ErrorId::ConfigNotSupported, value.node,
                        "'" + value.key + ": " + word +
                            "' cannot be had: only FSDP2's semantics are "
                            "compiled; write FSDP and fsdp_config: {…}");
  bool isWhole = word.starts_with("MULTI");
  std::string why =
      isWhole ? "parameters are sharded over the ranks, with the same values; "
                "mesh: {dp_shard: 1, dp_replicate: N} keeps them whole"
              : "the mesh says where ranks run";
  value.reading.classify(KeyOutcome::PassedOver, why);
  value.reading.addMinor(value.node, "'" + value.key + ": " + word +
                                         "' has no meaning here and is "
                                         "ignored: " +
                                         why);
}

/// transformers': how rows are dealt, and when gradients are exchanged.
void foreign::readAcceleratorConfig(const Value &value) {
  if (value.node.IsScalar() || value.node.IsNull())
    return;
  if (!value.node.IsMap())
    value.failType("a map of keys and values");
  for (const auto &entry : value.node) {
    std::string key = entry.first.Scalar();
    if (key == "gradient_accumulation_kwargs" && entry.second.IsMap()) {
      for (const auto &each : entry.second)
        if (each.first.Scalar() != "sync_each_batch" &&
            each.first.Scalar() != "sync_with_dataloader" &&
            each.first.Scalar() != "adjust_scheduler")
          value.reader().fail(ErrorId::ConfigNotSupported, each.first,
                              "'" + each.first.Scalar() +
                                  "' cannot be had: "
                                  "gradient_accumulation_steps says how many "
                                  "micro-batches a step has");
    } else if (key == "split_batches" && !isOff(entry.second)) {
      value.reader().fail(ErrorId::ConfigNotSupported, entry.first,
                          "'split_batches' cannot be had: the batch of a rank "
                          "is the exported one");
    }
  }
  value.reading.classify(
      KeyOutcome::PassedOver,
      "gradients are exchanged in each micro-batch (fsdp_config: "
      "{gradient_sync: each}), and fsdp-run deals rows");
}

//===----------------------------------------------------------------------===//
// FSDP1
//===----------------------------------------------------------------------===//

/// transformers' and older Axolotl's: words, as a list or with spaces between.
static std::vector<std::string> readWords(const Value &value) {
  std::vector<std::string> words;
  const YAML::Node &node = value.node;
  if ((node.IsScalar() && node.Scalar().empty()) ||
      (node.IsSequence() && !node.size()))
    return words;
  for (std::string text : value.reader().readStrings(node, value.key))
    for (size_t begin = 0, end; begin < text.size(); begin = end + 1) {
      end = std::min(text.find(' ', begin), text.size());
      if (end > begin)
        words.push_back(text.substr(begin, end - begin));
    }
  return words;
}

/// What fsdp_config says counts, wherever it stands.
static void readFsdpWord(const Value &value, const std::string &word) {
  Reading &reading = value.reading;
  Config &config = reading.result.config;
  if (word == "auto_wrap") {
    reading.wrapsByArguments = true;
  } else if (word == "offload") {
    if (!reading.find("fsdp_config.offload_params")) {
      config.offloadParams = true;
      reading.becomeValue("fsdp_config.offload_params", true);
    }
    reading.imply("fsdp_config.offload_params", value);
  } else if (word == "full_shard" || word == "shard_grad_op") {
    if (!reading.find("fsdp_config.reshard_after_forward")) {
      config.reshard = word == "full_shard" ? Reshard::All : Reshard::None;
      reading.becomeValue("fsdp_config.reshard_after_forward",
                          word == "full_shard");
    }
    reading.imply("fsdp_config.reshard_after_forward", value);
  } else {
    bool hybrid = word == "hybrid_shard" || word == "hybrid_shard_zero2";
    value.reader().fail(
        ErrorId::ConfigNotSupported, value.node,
        "'" + value.key + "' cannot be had with '" + word + "'" +
            (hybrid ? "; say how many replicas there are: mesh: "
                      "{dp_replicate: N}, beside full_shard"
             : word == "no_shard"
                 ? "; write mesh: {dp_shard: 1, dp_replicate: N}"
                 : "; expected full_shard, shard_grad_op, offload or "
                   "auto_wrap"));
  }
}

void foreign::readFsdpWords(const Value &value) {
  std::vector<std::string> words = readWords(value);
  for (const std::string &word : words)
    readFsdpWord(value, word);
  if (!words.empty())
    value.reading.addMinor(value.node,
                           "'" + value.key + "' is taken as fsdp_config");
}

void fsdp::applyAutoWrap(Reading &reading) {
  if (!reading.wrapsByArguments || reading.find("fsdp_config.auto_wrap_policy"))
    return;
  Config &config = reading.result.config;
  if (!config.wrapClasses.empty())
    config.wrapPolicy = WrapPolicy::Classes;
  else if (reading.find("fsdp_config.min_num_params"))
    config.wrapPolicy = WrapPolicy::Size;
  if (config.wrapPolicy != WrapPolicy::Blocks)
    reading.becomeValue("fsdp_config.auto_wrap_policy",
                        std::string(getName(config.wrapPolicy)));
}

/// What the file says itself of what FSDP1's strategies are about.
static std::optional<bool> findReshard(const Reading &reading) {
  for (const char *key :
       {"reshard_after_forward", "fsdp_reshard_after_forward"})
    if (YAML::Node node = reading.root["fsdp_config"][key];
        node && YamlReader::isBool(node))
      return node.as<bool>();
  return std::nullopt;
}

/// A name, or its number in torch.distributed.fsdp.ShardingStrategy.
void foreign::readStrategy(const Value &value) {
  static constexpr std::string_view names[] = {"FULL_SHARD", "SHARD_GRAD_OP",
                                               "NO_SHARD", "HYBRID_SHARD",
                                               "_HYBRID_SHARD_ZERO2"};
  std::string &name = value.reading.strategy;
  if (YamlReader::isInt(value.node)) {
    int64_t number = value.reader().readInt(value.node, value.key);
    if (number < 1 || number > 5)
      value.failRange("a name or a number from 1 to 5");
    name = names[number - 1];
  } else if (value.node.IsScalar() &&
             value.node.Scalar() == "HYBRID_SHARD_ZERO2") {
    name = "_HYBRID_SHARD_ZERO2";
  } else {
    name = value.reader().readChoice(value.node, value.key, names);
  }
  bool keeps = name == "SHARD_GRAD_OP" || name == "_HYBRID_SHARD_ZERO2" ||
               name == "NO_SHARD";
  const char *path = "fsdp_config.reshard_after_forward";
  if (std::optional<bool> said = findReshard(value.reading)) {
    // Files for both versions of FSDP have both keys.
    if (*said == keeps)
      value.fail(name +
                 " is reshard_after_forward: " + (keeps ? "false" : "true") +
                 ", and the file says the other, too; keep one");
    value.reading.isStrategyBeside = true;
    return;
  }
  value.reading.take(path, {YAML::Node(value.key), value.node, true});
  value.reading.result.config.reshard = keeps ? Reshard::None : Reshard::All;
  value.reading.becomeValue("fsdp_config.reshard_after_forward", !keeps);
}

void fsdp::applyStrategy(Reading &reading, std::optional<int64_t> &shard) {
  const std::string &strategy = reading.strategy;
  if (strategy.empty())
    return;
  const char *path = "fsdp_config.reshard_after_forward";
  Config &config = reading.result.config;
  std::string became = config.reshard == Reshard::All
                           ? "reshard_after_forward: true"
                           : "reshard_after_forward: false";
  bool hybrid = strategy.find("HYBRID") != std::string::npos;
  if (strategy == "NO_SHARD") {
    // All ranks are replicas, whether the mesh says so or not.
    bool isSharded = shard && *shard > 1;
    int64_t ranks = reading.world ? *reading.world / (config.tp * config.cp)
                                  : config.dpReplicate;
    if (isSharded || (config.dpReplicate > 1 && config.dpReplicate != ranks))
      reading.refuse(
          path, "'sharding_strategy: NO_SHARD' contradicts the mesh; leave one "
                "of them out");
    shard = 1;
    config.dpReplicate = ranks;
    reading.becomeValue("mesh.dp_shard", 1);
    reading.becomeValue("mesh.dp_replicate", ranks);
    became = "mesh: {dp_shard: 1, dp_replicate: " + std::to_string(ranks) + "}";
  } else if (hybrid && config.dpReplicate == 1) {
    reading.refuse(path,
                   "'sharding_strategy: " + strategy +
                       "' needs mesh: {dp_replicate: N}, the number of "
                       "replicas (FSDP1: of machines)",
                   ErrorId::ConfigMissingKey);
  } else if (hybrid) {
    became +=
        " with mesh: {dp_replicate: " + std::to_string(config.dpReplicate) +
        "}";
  } else if (config.dpReplicate > 1) {
    reading.refuse(path, "'sharding_strategy: " + strategy +
                             "' has no replicas and the mesh has " +
                             std::to_string(config.dpReplicate) +
                             "; write HYBRID_SHARD or _HYBRID_SHARD_ZERO2");
  }
  if (const Given *key = reading.find(path); key && !reading.isStrategyBeside)
    reading.addNote(key->value,
                    "'sharding_strategy: " + strategy + "' became " + became);
}
