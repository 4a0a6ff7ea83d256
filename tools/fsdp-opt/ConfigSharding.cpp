//===- ConfigSharding.cpp - Mesh and fsdp_config of the config -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/ConfigParser.h"

#include <cstdlib>

using namespace fsdp;

//===----------------------------------------------------------------------===//
// Mesh
//===----------------------------------------------------------------------===//

void ConfigParser::parseVersion(const Node &node) {
  if (int64_t version = read.readInt(node, "fsdp_version"); version != 2)
    read.fail(ErrorId::ConfigNotSupported, node,
              "'fsdp_version': expected 2, found " + std::to_string(version) +
                  "; only FSDP2's semantics are compiled");
}

void ConfigParser::parseMesh(const Node &node) {
  meshNode.emplace(node);
  parseSection("mesh", node);
}

void ConfigParser::parseReplicate(const Node &node) {
  int64_t size = read.readInt(node, "dp_replicate");
  if (size < 1 || size > kMostRanks)
    read.fail(ErrorId::ConfigBadValue, node,
              "'dp_replicate': expected a number of replicas from 1 to " +
                  std::to_string(kMostRanks) + ", found " +
                  std::to_string(size));
  result.config.dpReplicate = size;
}

void ConfigParser::parseShard(const Node &node) {
  int64_t size = read.readInt(node, "dp_shard");
  if (size != -1 && (size < 1 || size > kMostRanks))
    read.fail(ErrorId::ConfigBadValue, node,
              "'dp_shard': expected a number of ranks from 1 to " +
                  std::to_string(kMostRanks) +
                  ", or -1 for all of --world, found " + std::to_string(size));
  dpShard = size;
}

void ConfigParser::resolveMesh(const Node &root) {
  if (!world)
    world = processes;
  if (!dpShard && !world)
    read.fail(ErrorId::ConfigMissingKey, meshNode ? *meshNode : root,
              "the number of ranks is missing; add mesh: {dp_shard: N} to the "
              "config or --world=N to the command");
  if (dpShard == -1 && !world)
    read.fail(
        ErrorId::ConfigMissingKey, *meshNode,
        "'dp_shard: -1' takes all ranks of --world, which is missing; add "
        "--world=N to the command");
  applyStrategy();
  int64_t replicas = result.config.dpReplicate;
  if (world && *world % replicas != 0)
    read.fail(
        ErrorId::MeshMismatch, *meshNode,
        "the mesh has " + std::to_string(replicas) +
            " replicas, which do not divide --world=" + std::to_string(*world));
  if (world && dpShard && *dpShard != -1 && *dpShard * replicas != *world)
    read.fail(ErrorId::MeshMismatch, *meshNode,
              "the mesh has " + std::to_string(*dpShard * replicas) +
                  " ranks and --world=" + std::to_string(*world) +
                  "; write dp_shard: -1, or leave --world out");
  result.config.dpShard = world ? *world / replicas : *dpShard;
  if (result.config.dpShard * replicas > kMostRanks)
    read.fail(ErrorId::ConfigBadValue, *meshNode,
              "the mesh has " +
                  std::to_string(result.config.dpShard * replicas) +
                  " ranks; expected at most " + std::to_string(kMostRanks));
}

//===----------------------------------------------------------------------===//
// fsdp_config
//===----------------------------------------------------------------------===//

void ConfigParser::parseFsdpConfig(const Node &node) {
  fsdpNode.emplace(node);
  parseSection("fsdp_config", node);
}

void ConfigParser::parsePolicy(const Node &node) {
  static constexpr std::string_view choices[] = {"TRANSFORMER_BASED_WRAP",
                                                 "SIZE_BASED_WRAP", "NO_WRAP"};
  std::string name = read.readChoice(node, "auto_wrap_policy", choices);
  result.config.wrapPolicy = name == choices[0]   ? WrapPolicy::Classes
                             : name == choices[1] ? WrapPolicy::Size
                                                  : WrapPolicy::None;
}

void ConfigParser::parseClasses(const Node &node) {
  result.config.wrapClasses =
      read.readStrings(node, "transformer_layer_cls_to_wrap");
}

void ConfigParser::parseMinParams(const Node &node) {
  result.config.minParams = read.readInt(node, "min_num_params");
  if (result.config.minParams < 1)
    read.fail(
        ErrorId::ConfigBadValue, node,
        "'min_num_params': expected a number of parameters from 1, found " +
            node.Scalar());
}

void ConfigParser::checkPolicy() {
  const Config &config = result.config;
  bool classes = config.wrapPolicy == WrapPolicy::Classes;
  if (classes && config.wrapClasses.empty())
    read.fail(ErrorId::ConfigMissingKey, *fsdpNode,
              "TRANSFORMER_BASED_WRAP needs transformer_layer_cls_to_wrap: the "
              "class of the repeated layer (--explain lists the classes)");
  if (!classes && !config.wrapClasses.empty())
    read.fail(ErrorId::ConfigBadValue,
              (*fsdpNode)["transformer_layer_cls_to_wrap"],
              "'transformer_layer_cls_to_wrap' needs auto_wrap_policy: "
              "TRANSFORMER_BASED_WRAP");
  if (fsdpNode && fsdpNode->IsMap())
    if (const Node node = (*fsdpNode)["min_num_params"];
        node.IsDefined() && config.wrapPolicy != WrapPolicy::Size)
      read.fail(ErrorId::ConfigBadValue, node,
                "'min_num_params' needs auto_wrap_policy: SIZE_BASED_WRAP");
}

void ConfigParser::parseBuckets(const Node &node) {
  if (node.IsNull())
    return;
  if (!node.IsMap())
    read.failType(node, "buckets",
                  "a map of names and patterns such as {heads: \"*head*\"}");
  for (const auto &entry : node) {
    NamedBucket &bucket = result.config.buckets.emplace_back();
    bucket.name = read.readString(entry.first, "buckets");
    bucket.patterns = read.readStrings(entry.second, bucket.name);
    for (size_t i = 0; i + 1 < result.config.buckets.size(); ++i)
      if (result.config.buckets[i].name == bucket.name)
        read.fail(ErrorId::ConfigBadValue, entry.first,
                  "'" + bucket.name + "' stands twice in buckets; keep one");
    bool isSafe = bucket.name.find('=') == std::string::npos;
    for (const std::string &pattern : bucket.patterns)
      isSafe &= pattern.find('|') == std::string::npos;
    if (!isSafe)
      read.fail(ErrorId::ConfigBadValue, entry.first,
                "'buckets': expected names without '=' and patterns without "
                "'|', found '" +
                    bucket.name + "'");
  }
}

std::optional<int64_t> ConfigParser::readReshardRanks(const Node &node) {
  if (YamlReader::isBool(node))
    return std::nullopt;
  if (!YamlReader::isInt(node))
    read.failType(node, "reshard_after_forward",
                  "true, false or a number of ranks");
  return readRange(node, "reshard_after_forward", 1, kMostRanks);
}

void ConfigParser::parseReshard(const Node &node) {
  if (node.IsNull())
    return;
  std::optional<int64_t> ranks = readReshardRanks(node);
  if (!ranks) {
    result.config.reshard = read.readBool(node, "reshard_after_forward")
                                ? Reshard::All
                                : Reshard::None;
    return;
  }
  result.config.reshard = *ranks == 1 ? Reshard::None : Reshard::All;
  result.config.reshardRanks = *ranks;
  if (*ranks == 1)
    addNote(node, "'reshard_after_forward: 1' is the same as false");
}

/// The mesh is known by now.
void ConfigParser::checkReshard() {
  Config &config = result.config;
  if (config.reshardRanks > 1 && config.dpShard % config.reshardRanks != 0)
    read.fail(ErrorId::ConfigBadValue, (*fsdpNode)["reshard_after_forward"],
              "'reshard_after_forward': expected a number of ranks that "
              "divides the " +
                  std::to_string(config.dpShard) + " of dp_shard, found " +
                  std::to_string(config.reshardRanks));
  for (const ModuleOverride &override : config.overrides) {
    int64_t ranks = std::atoll(override.reshard.c_str()); // 0 of a truth value
    if (ranks > 1 && config.dpShard % ranks != 0)
      throw Error(ErrorId::ConfigBadValue,
                  override.place +
                      ": 'reshard_after_forward': expected a number of ranks "
                      "that divides the " +
                      std::to_string(config.dpShard) + " of dp_shard, found " +
                      override.reshard);
  }
}

/// What depends on the model's shapes or buckets is the pass's to say.
void ConfigParser::checkLayout() {
  const Config &config = result.config;
  bool holdsRows = config.layout == LayoutChoice::Rows ||
                   config.layout == LayoutChoice::Auto;
  for (const ModuleOverride &override : config.overrides)
    holdsRows |= override.layout.has_value();
  if (holdsRows)
    return;
  const Node rules = (*fsdpNode)["shard_dims"];
  for (const auto &rule : rules.IsDefined() ? rules : Node())
    if (YamlReader::isInt(rule.second) &&
        read.readInt(rule.second, "shard_dims") != 0)
      read.fail(ErrorId::ConfigBadValue, rule.first,
                "'shard_dims' of '" + rule.first.Scalar() +
                    "' is no dim 0, which 'bucket_layout: " +
                    std::string(config.layout == LayoutChoice::Flat ? "flat"
                                                                    : "fsdp2") +
                    "' needs; write bucket_layout: auto or rows, or rows for "
                    "its bucket in overrides");
}

LayoutChoice ConfigParser::readLayout(const Node &node) {
  static constexpr std::string_view choices[] = {"auto", "rows", "flat",
                                                 "fsdp2"};
  std::string name = read.readChoice(node, "bucket_layout", choices);
  return name == choices[0]   ? LayoutChoice::Auto
         : name == choices[1] ? LayoutChoice::Rows
         : name == choices[2] ? LayoutChoice::Flat
                              : LayoutChoice::Fsdp2;
}

void ConfigParser::parseLayout(const Node &node) {
  result.config.layout = readLayout(node);
}

void ConfigParser::parseOverrideLayout(const Node &node) {
  result.config.overrides.back().layout = readLayout(node);
}

void ConfigParser::parseIgnoredParams(const Node &node) {
  result.config.ignoredParams = read.readStrings(node, "ignored_params");
}

void ConfigParser::parseReduceIgnored(const Node &node) {
  result.config.reduceIgnoredParams =
      read.readBool(node, "reduce_ignored_params");
}

void ConfigParser::parseShardDims(const Node &node) {
  if (!node.IsMap())
    read.failType(node, "shard_dims",
                  "a map of patterns and dims such as {\"*.weight\": 1}");
  for (const auto &entry : node) {
    std::string pattern = read.readString(entry.first, "shard_dims");
    const Node &dim = entry.second;
    bool isLargest = dim.IsScalar() && dim.Scalar() == "largest";
    if (!isLargest && !YamlReader::isInt(dim))
      read.failType(dim, pattern, "a dim from 0, or 'largest'");
    // PyTorch's tensors have 64 dims at most.
    if (int64_t number = isLargest ? 0 : read.readInt(dim, pattern);
        number < 0 || number > 63)
      read.fail(ErrorId::ConfigBadValue, dim,
                "'shard_dims' of '" + pattern +
                    "': expected a dim from 0, or 'largest', found " +
                    dim.Scalar());
    result.config.shardDims.push_back(pattern + "=" + dim.Scalar());
  }
}

void ConfigParser::parseOffload(const Node &node) {
  offloadParams = read.readBool(node, "offload_params");
}

/// The device is known by now.
void ConfigParser::checkOffload() {
  if (!offloadParams)
    return;
  const Node node = (*fsdpNode)["offload_params"];
  if (result.config.target.device != Target::Device::Cpu)
    failLater(node, "offload_params: true with device: cuda", "write false");
  addNote(node, "'offload_params' has no effect with device: cpu, "
                "where parameters are in the host's memory anyway");
}

void ConfigParser::parsePrefetch(const Node &node) {
  // Ahead of more buckets than a model has is ahead of all.
  result.config.prefetch = readCount(node, "prefetch", 1 << 20);
}

void ConfigParser::parsePinMemory(const Node &node) {
  read.readBool(node, "cpu_offload_pin_memory");
}
