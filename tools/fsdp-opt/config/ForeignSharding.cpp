//===- ForeignSharding.cpp - Other tools' keys of the mesh and FSDP -------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/config/Foreign.h"
#include "tools/fsdp-opt/config/ForeignKeys.h"
#include "tools/fsdp-opt/config/ForeignReaders.h"
#include "tools/fsdp-opt/config/Tables.h"

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

/// Accelerate's, whose keys have a prefix in its files.
void foreign::readParallelism(const Value &value) {
  static constexpr std::pair<std::string_view, std::string_view> axes[] = {
      {"dp_replicate_size", "mesh.dp_replicate"},
      {"dp_shard_size", "mesh.dp_shard"},
      {"tp_size", "mesh.tp"},
      {"cp_size", "mesh.cp"},
      {"cp_comm_strategy", "context_parallel_rotate_method"}};
  constexpr std::string_view prefix = "parallelism_config_";
  if (!value.node.IsMap())
    value.failType("a map of keys and values");
  for (const auto &entry : value.node) {
    std::string written = entry.first.Scalar();
    std::string_view own = written;
    if (own.starts_with(prefix))
      own.remove_prefix(prefix.size());
    const auto *axis = std::ranges::find(
        axes, own, &std::pair<std::string_view, std::string_view>::first);
    if (axis == std::end(axes)) {
      const ForeignKey *foreign = findForeignKey("parallelism_config", own);
      if (!foreign)
        value.reader().fail(ErrorId::ConfigUnknownKey, entry.first,
                            "unknown key '" + written +
                                "' in parallelism_config; write mesh: {…}");
      reportForeign(value.reading, *foreign, {entry.first, entry.second, true});
      continue;
    }
    std::string path(axis->second);
    value.reading.collect(path, [&] {
      value.reading.take(path, {entry.first, entry.second, true});
      value.reading.addMinor(entry.first,
                             "'" + written + "' is taken as " + path);
      getTopLevel().readAt(path, {value.reading, path, written, entry.second},
                           value.reading.result.config);
    });
  }
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
    if (!reading.find("fsdp_config.offload_params"))
      config.offloadParams = true;
    reading.imply("fsdp_config.offload_params", value);
  } else if (word == "full_shard" || word == "shard_grad_op") {
    if (!reading.find("fsdp_config.reshard_after_forward"))
      config.reshard = word == "full_shard" ? Reshard::All : Reshard::None;
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
  value.reading.result.config.reshard = keeps ? Reshard::None : Reshard::All;
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
  reading.addNote(reading.find(path)->value,
                  "'sharding_strategy: " + strategy + "' became " + became);
}
