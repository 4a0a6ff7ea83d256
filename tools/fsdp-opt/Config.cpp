//===- Config.cpp - How to shard and train -------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/Config.h"

#include "runtime/support/Nearest.h"
#include "tools/fsdp-opt/ConfigParser.h"

#include <algorithm>

using namespace fsdp;

const std::vector<ConfigParser::Key> &ConfigParser::getKeys() {
  using P = ConfigParser;
  static const std::vector<Key> keys = {
      {"", "fsdp_version", &P::parseVersion},
      {"", "mesh", &P::parseMesh},
      {"mesh", "dp_replicate", &P::parseReplicate},
      {"mesh", "dp_shard", &P::parseShard},
      {"", "fsdp_config", &P::parseFsdpConfig},
      {"fsdp_config", "auto_wrap_policy", &P::parsePolicy},
      {"fsdp_config", "transformer_layer_cls_to_wrap", &P::parseClasses},
      {"fsdp_config", "min_num_params", &P::parseMinParams},
      {"fsdp_config", "buckets", &P::parseBuckets},
      {"fsdp_config", "bucket_layout", &P::parseLayout},
      {"fsdp_config", "reshard_after_forward", &P::parseReshard},
      {"fsdp_config", "ignored_params", &P::parseIgnoredParams},
      {"fsdp_config", "reduce_ignored_params", &P::parseReduceIgnored},
      {"fsdp_config", "shard_dims", &P::parseShardDims},
      {"fsdp_config", "reshard_after_backward", &P::parseReshardBackward},
      {"fsdp_config", "gradient_sync", &P::parseSync},
      {"fsdp_config", "mixed_precision", &P::parseMixedPrecision},
      {"fsdp_config.mixed_precision", "param_dtype", &P::parseParamDtype},
      {"fsdp_config.mixed_precision", "reduce_dtype", &P::parseReduceDtype},
      {"fsdp_config.mixed_precision", "output_dtype", &P::parseOutputDtype},
      {"fsdp_config.mixed_precision", "cast_forward_inputs",
       &P::parseCastInputs},
      {"fsdp_config", "gradient_divide_factor", &P::parseDivideFactor},
      {"fsdp_config", "force_sum_reduction", &P::parseForceSum},
      {"fsdp_config", "gradient_division", &P::parseDivision},
      {"fsdp_config", "overrides", &P::parseOverrides},
      {"fsdp_config.overrides", "modules", &P::parseOverrideModules},
      {"fsdp_config.overrides", "mixed_precision", &P::parseOverridePrecision},
      {"fsdp_config.overrides", "reshard_after_forward",
       &P::parseOverrideReshard},
      {"fsdp_config.overrides", "bucket_layout", &P::parseOverrideLayout},
      {"fsdp_config", "offload_params", &P::parseOffload},
      {"fsdp_config", "cpu_offload_pin_memory", &P::parsePinMemory},
      {"fsdp_config", "prefetch", &P::parsePrefetch},
      {"", "mode", &P::parseMode},
      {"", "optimizer", &P::parseOptimizer},
      {"optimizer", "name", &P::parseOptimizerName},
      {"optimizer", "lr", &P::parseLr},
      {"optimizer", "betas", &P::parseBetas},
      {"optimizer", "eps", &P::parseEps},
      {"optimizer", "momentum", &P::parseMomentum},
      {"optimizer", "nesterov", &P::parseNesterov},
      {"optimizer", "weight_decay", &P::parseWeightDecay},
      {"optimizer", "groups", &P::parseGroups},
      {"optimizer.groups", "params", &P::parseGroupParams},
      {"optimizer.groups", "lr", &P::parseLr},
      {"optimizer.groups", "betas", &P::parseBetas},
      {"optimizer.groups", "eps", &P::parseEps},
      {"optimizer.groups", "momentum", &P::parseMomentum},
      {"optimizer.groups", "nesterov", &P::parseNesterov},
      {"optimizer.groups", "weight_decay", &P::parseWeightDecay},
      {"", "lr_scheduler", &P::parseScheduler},
      {"lr_scheduler", "name", &P::parseSchedulerName},
      {"lr_scheduler", "warmup_steps", &P::parseWarmupSteps},
      {"lr_scheduler", "warmup_ratio", &P::parseWarmupRatio},
      {"lr_scheduler", "total_steps", &P::parseTotalSteps},
      {"lr_scheduler", "min_lr", &P::parseMinLr},
      {"", "gradient_accumulation_steps", &P::parseAccumulation},
      {"", "max_grad_norm", &P::parseMaxGradNorm},
      {"", "grad_norm_type", &P::parseGradNormType},
      {"", "on_nonfinite", &P::parseOnNonFinite},
      {"", "lost_gradients", &P::parseLostGradients},
      {"", "loss_scale", &P::parseLossScale},
      {"loss_scale", "init", &P::parseScaleInit},
      {"loss_scale", "growth_factor", &P::parseScaleGrowth},
      {"loss_scale", "backoff_factor", &P::parseScaleBackoff},
      {"loss_scale", "growth_interval", &P::parseScaleInterval},
      {"", "device", &P::parseDevice},
      {"", "cuda_arch", &P::parseCudaArch},
      {"", "tf32", &P::parseTf32},
      {"", "reduced_precision_reduction", &P::parseReducedReduction},
      {"", "fp16_accumulation", &P::parseFp16Accumulation},
      {"", "seed", &P::parseSeed},
      {"", "data", &P::parseData},
      {"data", "tokens", &P::parseTokens},
      {"data", "samples", &P::parseSamples},
      {"data", "format", &P::parseTokenFormat},
      {"data", "dtype", &P::parseTokenDtype},
      {"data", "inputs", &P::parseDataInputs},
      {"data", "targets", &P::parseDataTargets},
      {"data", "shuffle", &P::parseShuffle},
      {"data", "seed", &P::parseDataSeed},
      {"data", "epochs", &P::parseEpochs},
      {"data", "drop_last", &P::parseDropLast},
      {"", "eval", &P::parseEval},
      {"eval", "data", &P::parseEvalData},
      {"eval", "every", &P::parseEvalEvery},
      {"eval", "batches", &P::parseEvalBatches},
      {"", "init", &P::parseInit},
      {"", "weights", &P::parseWeights},
      {"weights", "rename", &P::parseRename},
      {"weights", "ignore", &P::parseIgnore},
      {"weights", "strict", &P::parseStrict},
      {"", "tied", &P::parseTied},

      {"", "micro_batch_size", &P::parseStatedRows},
      {"", "per_device_train_batch_size", &P::parseStatedRows},
      {"", "sequence_len", &P::parseStatedTokens},
      {"", "max_seq_length", &P::parseStatedTokens},
      {"", "max_length", &P::parseStatedTokens},
      {"", "block_size", &P::parseStatedTokens},
      {"", "fsdp", &P::parseFsdpWord},
      {"", "optim", &P::parseOptimizer, "optimizer"},
      {"", "learning_rate", &P::parseLr, "optimizer.lr"},
      {"", "adam_beta1", &P::parseAdamBeta1, "optimizer.betas"},
      {"", "adam_beta2", &P::parseAdamBeta2, "optimizer.betas"},
      {"", "adam_epsilon", &P::parseEps, "optimizer.eps"},
      {"", "weight_decay", &P::parseForeignDecay, "optimizer.weight_decay"},
      {"", "lr_scheduler_type", &P::parseScheduler, "lr_scheduler"},
      {"", "warmup_steps", &P::parseForeignWarmupSteps,
       "lr_scheduler.warmup_steps"},
      {"", "warmup_ratio", &P::parseForeignWarmupRatio,
       "lr_scheduler.warmup_ratio"},
      {"", "max_steps", &P::parseMaxSteps, "lr_scheduler.total_steps"},
      {"", "num_processes", &P::parseProcesses, "--world"},
      {"", "mixed_precision", &P::parseForeignPrecision,
       "fsdp_config.mixed_precision"},
      {"", "bf16", &P::parseForeignPrecision, "fsdp_config.mixed_precision"},
      {"", "fp16", &P::parseForeignFp16, "fsdp_config.mixed_precision"},
      {"fsdp_config", "fsdp_version", &P::parseVersion, "fsdp_version"},
      {"fsdp_config", "sharding_strategy", &P::parseStrategy,
       "fsdp_config.reshard_after_forward"},
  };
  return keys;
}

std::vector<ConfigKey> ConfigParser::listKeys() {
  std::vector<ConfigKey> all;
  for (const Key &key : getKeys())
    all.push_back({key.section, key.name});
  return all;
}

//===----------------------------------------------------------------------===//
// Sections
//===----------------------------------------------------------------------===//

static std::string describeSection(std::string_view section) {
  return section.empty() ? "" : " in " + std::string(section);
}

void ConfigParser::failUnknown(std::string_view section, const Node &name) {
  std::vector<std::string_view> here, elsewhere;
  for (const Key &key : getKeys())
    (key.section == section ? here : elsewhere).push_back(key.name);
  std::string key = name.Scalar();
  std::string message = "unknown key '" + key + "'" + describeSection(section);
  // The right word in the wrong section is told apart from a misspelt one.
  for (const Key &known : getKeys())
    if (known.name == key) {
      std::string place = known.section.empty()
                              ? "to the top level"
                              : "into " + std::string(known.section);
      read.fail(ErrorId::ConfigUnknownKey, name,
                message + "; it belongs " + place);
    }
  std::string_view nearest = findNearest(key, here);
  if (nearest.empty())
    nearest = findNearest(key, elsewhere);
  if (!nearest.empty())
    message += "; did you mean '" + std::string(nearest) + "'?";
  else {
    message += "; expected one of ";
    for (size_t i = 0; i < here.size(); ++i)
      message += (i ? ", " : "") + std::string(here[i]);
  }
  read.fail(ErrorId::ConfigUnknownKey, name, message);
}

/// Whether the value of another tool's key asks for nothing.
static bool isOff(const YAML::Node &value) {
  static constexpr std::string_view words[] = {
      "",   "false", "False", "FALSE", "0",  "0.0",
      "no", "No",    "none",  "None",  "off"};
  return value.IsScalar() &&
         std::ranges::find(words, value.Scalar()) != std::end(words);
}

void ConfigParser::parseForeign(const ForeignKey &key, const Node &name,
                                const Node &value) {
  bool isEmpty = value.IsNull() ||
                 ((value.IsMap() || value.IsSequence()) && !value.size());
  if (isEmpty || (isOff(value) && key.action != ForeignKey::Moved))
    return;
  std::string quoted = "'" + name.Scalar() + "' ";
  std::string reason(key.reason);
  switch (key.action) {
  case ForeignKey::Ignored:
    return addMinor(name,
                    quoted + "has no meaning here and is ignored: " + reason);
  case ForeignKey::Noted:
    return addNote(name, quoted + reason);
  case ForeignKey::Changes:
    return addWarning(name, quoted + "is not taken from here: " + reason);
  case ForeignKey::RefusedAboveOne:
    if (value.IsScalar() && value.Scalar() == "1")
      return;
    break;
  case ForeignKey::Refused:
    if (value.IsScalar() && value.Scalar() == "constant")
      return;
    break;
  case ForeignKey::Moved:
    break;
  }
  bool sentence = key.reason.starts_with("is ");
  read.fail(ErrorId::ConfigNotSupported, name,
            quoted + (sentence ? "" : "cannot be had: ") + reason);
}

/// One thing may be said under two names, but once.
void ConfigParser::noteTaken(const Key &key, const Node &name) {
  // A list of groups or overrides has the same keys again and again.
  if (group || inOverride)
    return;
  std::string own(key.becomes);
  if (own.empty())
    own = std::string(key.section) + (key.section.empty() ? "" : ".") +
          std::string(key.name);
  else if (key.name != "sharding_strategy")
    addMinor(name, "'" + name.Scalar() + "' is taken as " + own);
  result.config.places.emplace(own, read.describePlace(name));
  // adam_beta1 and adam_beta2 are halves of one.
  bool isHalf = key.name.starts_with("adam_beta");
  auto [it, isNew] = taken.try_emplace(own, name.Scalar());
  if (!isNew && !(isHalf && it->second.starts_with("adam_beta")))
    read.fail(ErrorId::ConfigBadValue, name,
              "'" + name.Scalar() + "' and '" + it->second +
                  "' say the same; keep one");
}

template <typename Parse>
void ConfigParser::collect(Parse parse) {
  try {
    parse();
  } catch (const Error &error) {
    problems.push_back(error);
    group = nullptr;
    inOverride = false;
  }
}

void ConfigParser::throwProblems() const {
  if (problems.empty())
    return;
  std::string message = problems.front().what();
  for (size_t i = 1; i < problems.size(); ++i)
    message += "\n" + problems[i].format();
  throw Error(problems.front().id(), message);
}

void ConfigParser::parseKey(std::string_view section, std::string_view own,
                            const Node &name, const Node &value) {
  auto key = std::ranges::find_if(getKeys(), [&](const Key &key) {
    return key.section == section &&
           (key.name == own || key.name == name.Scalar());
  });
  if (key != getKeys().end()) {
    // Files of other tools are full of keys without a value.
    if (value.IsNull() && !key->becomes.empty())
      return;
    if (key->becomes == "fsdp_config.mixed_precision" && isOff(value))
      return;
    noteTaken(*key, name);
    (this->*key->parse)(value);
  } else if (const ForeignKey *foreign = findForeignKey(section, own))
    parseForeign(*foreign, name, value);
  else
    failUnknown(section, name);
}

void ConfigParser::parseSection(std::string_view section, const Node &node) {
  given.clear();
  if (node.IsNull())
    return;
  if (!node.IsMap())
    read.failType(node, section.empty() ? read.getFile() : section,
                  "a map of keys and values");
  // The others' keys belong together: one mistake would make further ones up.
  bool collects = section.empty() || section == "fsdp_config";
  std::set<std::string, std::less<>> seen;
  for (const auto &entry : node) {
    const Node &name = entry.first, &value = entry.second;
    if (!name.IsScalar())
      read.failType(name, section.empty() ? "key" : section, "a key");
    // Accelerate's fsdp_config has a prefix before each key.
    std::string_view own = name.Scalar();
    if (section == "fsdp_config" && own.starts_with("fsdp_"))
      own.remove_prefix(std::string_view("fsdp_").size());
    auto parse = [&]() {
      if (!seen.insert(std::string(own)).second)
        read.fail(ErrorId::ConfigBadValue, name,
                  "'" + name.Scalar() + "' stands twice" +
                      describeSection(section) + "; keep one");
      parseKey(section, own, name, value);
    };
    if (collects)
      collect(parse);
    else
      parse();
  }
  given = std::move(seen);
}

LoadedConfig ConfigParser::parse(const Node &root) {
  parseSection("", root);
  // Checks across keys would follow one mistake with more; only how many ranks
  // there are does not depend on the others.
  if (!problems.empty()) {
    if (!meshNode)
      collect([&] { resolveMesh(root); });
    throwProblems();
  }
  OptimizerConfig &optimizer = result.config.optimizer;
  if (noDecay)
    optimizer.weightDecay = 0;
  if (optimizerWord && !taken.contains("optimizer.lr"))
    collect([&] {
      read.fail(ErrorId::ConfigMissingKey, *optimizerWord,
                "'optimizer: " + optimizerWord->Scalar() +
                    "' needs learning_rate: a number");
    });
  collect([&] { checkPolicy(); });
  collect([&] { checkScheduler(); });
  collect([&] { checkLossScale(root); });
  checkMode(root);
  collect([&] { resolveMesh(root); });
  collect([&] { checkReshard(); });
  collect([&] { checkLayout(); });
  collect([&] { checkOffload(); });
  collect([&] { checkDivision(); });
  checkArithmetic(root);
  collect([&] { checkMicroBatches(); });
  collect([&] { checkEval(root); });
  throwProblems();
  return std::move(result);
}

void ConfigParser::failLater(const Node &node, const std::string &what,
                             const std::string &advice) {
  read.fail(ErrorId::ConfigNotSupported, node,
            what + " is not supported yet; " + advice);
}

int64_t ConfigParser::readRange(const Node &node, std::string_view key,
                                int64_t least, int64_t most) {
  int64_t value = read.readInt(node, key);
  if (value < least)
    read.fail(ErrorId::ConfigBadValue, node,
              "'" + std::string(key) + "': expected a number from " +
                  std::to_string(least) + ", found " + node.Scalar());
  if (value > most)
    read.fail(ErrorId::ConfigBadValue, node,
              "'" + std::string(key) + "': expected at most " +
                  std::to_string(most) + ", found " + node.Scalar());
  return value;
}

int64_t ConfigParser::readCount(const Node &node, std::string_view key,
                                int64_t most) {
  return readRange(node, key, 0, most);
}

uint64_t ConfigParser::readPositive(const Node &node, std::string_view key,
                                    int64_t most) {
  return static_cast<uint64_t>(readRange(node, key, 1, most));
}

double ConfigParser::readAmount(const Node &node, std::string_view key) {
  double value = read.readDouble(node, key);
  if (value < 0)
    read.fail(ErrorId::ConfigBadValue, node,
              "'" + std::string(key) + "': expected a number from 0, found " +
                  node.Scalar());
  return value;
}

//===----------------------------------------------------------------------===//
// Entry points
//===----------------------------------------------------------------------===//

LoadedConfig fsdp::parseConfig(const std::string &text, const std::string &name,
                               std::optional<int64_t> world) {
  try {
    return ConfigParser(name, world).parse(YAML::Load(text));
  } catch (const YAML::Exception &exception) {
    std::string place = name;
    if (!exception.mark.is_null())
      place += ":" + std::to_string(exception.mark.line + 1) + ":" +
               std::to_string(exception.mark.column + 1);
    throw Error(ErrorId::ConfigNotReadable, place + ": " + exception.msg);
  }
}

std::vector<ConfigKey> fsdp::listConfigKeys() {
  return ConfigParser::listKeys();
}
