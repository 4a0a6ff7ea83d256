//===- Config.cpp - How to shard and train ------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/Config.h"

#include "runtime/support/Nearest.h"
#include "tools/fsdp-opt/ForeignKeys.h"
#include "tools/fsdp-opt/YamlReader.h"

#include <algorithm>
#include <charconv>
#include <regex>
#include <set>
#include <stdexcept>

using namespace fsdp;

namespace {
using Node = YAML::Node;

constexpr int64_t kMaxWorldSize = 1 << 20;

class ConfigParser {
public:
  ConfigParser(const std::string &name, std::optional<int64_t> world)
      : read(name), world(world) {}

  LoadedConfig parse(const Node &root);
  static std::vector<ConfigKey> listKeys();

private:
  struct Key {
    std::string_view section, name;
    void (ConfigParser::*parse)(const Node &);
  };
  static const std::vector<Key> &getKeys();

  void parseSection(std::string_view section, const Node &node);
  void parseForeign(const ForeignKey &key, const Node &name, const Node &value);
  [[noreturn]] void failUnknown(std::string_view section, const Node &name);

  void parseVersion(const Node &node);
  void parseMesh(const Node &node);
  void parseReplicate(const Node &node);
  void parseShard(const Node &node);
  void parseFsdpConfig(const Node &node);
  void parsePolicy(const Node &node);
  void parseClasses(const Node &node);
  void parseMinParams(const Node &node);
  void parseReshard(const Node &node);
  void parseMixedPrecision(const Node &node);
  void parseDtype(const Node &node);
  void parseCastInputs(const Node &node);
  void parseOffload(const Node &node);
  void parsePinMemory(const Node &node);
  void parseOptimizer(const Node &node);
  void parseOptimizerName(const Node &node);
  void parseLr(const Node &node);
  void parseBetas(const Node &node);
  void parseEps(const Node &node);
  void parseMomentum(const Node &node);
  void parseWeightDecay(const Node &node);
  void parseAccumulation(const Node &node);
  void parseMaxGradNorm(const Node &node);
  void parseDevice(const Node &node);
  void parseCudaArch(const Node &node);
  void parseSeed(const Node &node);
  void parseMode(const Node &node);
  void parseInit(const Node &node);
  void parseWeights(const Node &node);
  void parseRename(const Node &node);
  void parseIgnore(const Node &node);
  void parseStrict(const Node &node);
  void parseTied(const Node &node);

  void checkPolicy();
  void checkOptimizer();
  void checkMode(const Node &root);
  void resolveMesh(const Node &root);

  /// A value that is not negative.
  double readAmount(const Node &node, std::string_view key);
  [[noreturn]] void failLater(const Node &node, const std::string &what,
                              const std::string &advice);

  YamlReader read;
  std::optional<int64_t> world;
  LoadedConfig result;
  std::optional<const Node> meshNode, fsdpNode, optimizerNode;
  std::optional<int64_t> dpShard;
  /// Keys of the section that were given.
  std::set<std::string, std::less<>> given;
};
} // namespace

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
      {"fsdp_config", "reshard_after_forward", &P::parseReshard},
      {"fsdp_config", "mixed_precision", &P::parseMixedPrecision},
      {"fsdp_config.mixed_precision", "param_dtype", &P::parseDtype},
      {"fsdp_config.mixed_precision", "reduce_dtype", &P::parseDtype},
      {"fsdp_config.mixed_precision", "output_dtype", &P::parseDtype},
      {"fsdp_config.mixed_precision", "cast_forward_inputs",
       &P::parseCastInputs},
      {"fsdp_config", "offload_params", &P::parseOffload},
      {"fsdp_config", "cpu_offload_pin_memory", &P::parsePinMemory},
      {"", "mode", &P::parseMode},
      {"", "optimizer", &P::parseOptimizer},
      {"optimizer", "name", &P::parseOptimizerName},
      {"optimizer", "lr", &P::parseLr},
      {"optimizer", "betas", &P::parseBetas},
      {"optimizer", "eps", &P::parseEps},
      {"optimizer", "momentum", &P::parseMomentum},
      {"optimizer", "weight_decay", &P::parseWeightDecay},
      {"", "gradient_accumulation_steps", &P::parseAccumulation},
      {"", "max_grad_norm", &P::parseMaxGradNorm},
      {"", "device", &P::parseDevice},
      {"", "cuda_arch", &P::parseCudaArch},
      {"", "seed", &P::parseSeed},
      {"", "init", &P::parseInit},
      {"", "weights", &P::parseWeights},
      {"weights", "rename", &P::parseRename},
      {"weights", "ignore", &P::parseIgnore},
      {"weights", "strict", &P::parseStrict},
      {"", "tied", &P::parseTied},
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

void ConfigParser::parseForeign(const ForeignKey &key, const Node &name,
                                const Node &value) {
  std::string quoted = "'" + name.Scalar() + "' ";
  if (key.action == ForeignKey::Ignored) {
    result.notes.push_back(
        read.describePlace(name) + ": " + quoted +
        "has no meaning here and is ignored: " + std::string(key.reason));
    return;
  }
  if (value.IsNull() ||
      ((value.IsMap() || value.IsSequence()) && !value.size()))
    return;
  if (value.IsScalar() && key.action != ForeignKey::Moved) {
    static constexpr std::string_view nothing[] = {
        "false", "False", "FALSE", "0",   "0.0",     "no",
        "No",    "none",  "None",  "off", "constant"};
    std::string text = value.Scalar();
    if (text.empty() || std::ranges::find(nothing, text) != std::end(nothing) ||
        (key.action == ForeignKey::RefusedAboveOne && text == "1"))
      return;
  }
  bool sentence = key.reason.starts_with("is ");
  read.fail(ErrorId::ConfigNotSupported, name,
            quoted + (sentence ? "" : "cannot be had: ") +
                std::string(key.reason));
}

void ConfigParser::parseSection(std::string_view section, const Node &node) {
  given.clear();
  if (node.IsNull())
    return;
  if (!node.IsMap())
    read.failType(node, section.empty() ? read.getFile() : section,
                  "a map of keys and values");
  std::set<std::string, std::less<>> seen;
  for (const auto &entry : node) {
    const Node &name = entry.first, &value = entry.second;
    if (!name.IsScalar())
      read.failType(name, section.empty() ? "key" : section, "a key");
    if (!seen.insert(name.Scalar()).second)
      read.fail(ErrorId::ConfigBadValue, name,
                "'" + name.Scalar() + "' stands twice" +
                    describeSection(section) + "; keep one");
    auto key = std::ranges::find_if(getKeys(), [&](const Key &key) {
      return key.section == section && key.name == name.Scalar();
    });
    if (key != getKeys().end())
      (this->*key->parse)(value);
    else if (const ForeignKey *foreign = findForeignKey(section, name.Scalar()))
      parseForeign(*foreign, name, value);
    else
      failUnknown(section, name);
  }
  given = std::move(seen);
}

LoadedConfig ConfigParser::parse(const Node &root) {
  parseSection("", root);
  checkPolicy();
  checkMode(root);
  resolveMesh(root);
  return std::move(result);
}

void ConfigParser::failLater(const Node &node, const std::string &what,
                             const std::string &advice) {
  read.fail(ErrorId::ConfigNotSupported, node,
            what + " is not supported yet; " + advice);
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
  if (size < 1)
    read.fail(ErrorId::ConfigBadValue, node,
              "'dp_replicate': expected a number of replicas from 1, found " +
                  std::to_string(size));
  if (size > 1)
    failLater(node, "dp_replicate: " + std::to_string(size),
              "write 1 and shard over all ranks");
}

void ConfigParser::parseShard(const Node &node) {
  int64_t size = read.readInt(node, "dp_shard");
  if (size != -1 && (size < 1 || size > kMaxWorldSize))
    read.fail(ErrorId::ConfigBadValue, node,
              "'dp_shard': expected a number of ranks from 1 to " +
                  std::to_string(kMaxWorldSize) +
                  ", or -1 for all of --world, found " + std::to_string(size));
  dpShard = size;
}

void ConfigParser::resolveMesh(const Node &root) {
  if (!dpShard && !world)
    read.fail(ErrorId::ConfigMissingKey, meshNode ? *meshNode : root,
              "the number of ranks is missing; add mesh: {dp_shard: N} to the "
              "config or --world=N to the command");
  if (dpShard == -1 && !world)
    read.fail(
        ErrorId::ConfigMissingKey, *meshNode,
        "'dp_shard: -1' takes all ranks of --world, which is missing; add "
        "--world=N to the command");
  if (world && dpShard && *dpShard != -1 && *dpShard != *world)
    read.fail(ErrorId::MeshMismatch, *meshNode,
              "the mesh has " + std::to_string(*dpShard) +
                  " ranks and --world=" + std::to_string(*world) +
                  "; write dp_shard: -1, or leave --world out");
  result.config.dpShard = world ? *world : *dpShard;
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

void ConfigParser::parseReshard(const Node &node) {
  if (node.IsNull())
    return;
  if (YamlReader::isBool(node)) {
    result.config.reshard = read.readBool(node, "reshard_after_forward")
                                ? Reshard::All
                                : Reshard::None;
    return;
  }
  if (!YamlReader::isInt(node))
    read.failType(node, "reshard_after_forward", "true or false");
  failLater(node,
            "reshard_after_forward: " + node.Scalar() + " (to " +
                node.Scalar() + " ranks)",
            "write true or false");
}

void ConfigParser::parseMixedPrecision(const Node &node) {
  parseSection("fsdp_config.mixed_precision", node);
}

void ConfigParser::parseDtype(const Node &node) {
  if (node.IsNull())
    return;
  static constexpr std::string_view choices[] = {"bfloat16", "float16",
                                                 "float32", "float64"};
  std::string name = read.readChoice(node, "mixed_precision", choices);
  failLater(node, "mixed_precision with " + name,
            "take it out, and export the model in the type in which it shall "
            "compute");
}

void ConfigParser::parseCastInputs(const Node &node) {
  read.readBool(node, "cast_forward_inputs");
}

void ConfigParser::parseOffload(const Node &node) {
  if (read.readBool(node, "offload_params"))
    failLater(node, "offload_params: true", "write false");
}

void ConfigParser::parsePinMemory(const Node &node) {
  read.readBool(node, "cpu_offload_pin_memory");
}

//===----------------------------------------------------------------------===//
// Optimizer
//===----------------------------------------------------------------------===//

void ConfigParser::parseOptimizer(const Node &node) {
  if (node.IsScalar())
    read.failType(node, "optimizer", "a map such as {name: adamw, lr: 1.0e-3}");
  result.config.hasOptimizer = true;
  // First the name, whose defaults the other keys replace.
  if (node.IsMap() && node["name"].IsDefined())
    parseOptimizerName(node["name"]);
  optimizerNode.emplace(node);
  parseSection("optimizer", node);
  checkOptimizer();
}

void ConfigParser::parseOptimizerName(const Node &node) {
  static constexpr std::string_view choices[] = {"adamw", "adam", "sgd"};
  OptimizerConfig &optimizer = result.config.optimizer;
  optimizer.name = read.readChoice(node, "name", choices);
  // Among the defaults of torch.optim only this one differs by class.
  if (!optimizerNode)
    optimizer.weightDecay = optimizer.name == "adamw" ? 1e-2 : 0.0;
}

void ConfigParser::checkOptimizer() {
  const OptimizerConfig &optimizer = result.config.optimizer;
  bool sgd = optimizer.name == "sgd";
  for (const char *key : {"betas", "eps", "momentum"})
    if (given.contains(key) && sgd != (std::string_view(key) == "momentum"))
      read.fail(ErrorId::ConfigBadValue, (*optimizerNode)[key],
                std::string("'") + key + "' has no meaning for the optimizer " +
                    optimizer.name);
}

void ConfigParser::parseLr(const Node &node) {
  result.config.optimizer.lr = readAmount(node, "lr");
}

void ConfigParser::parseBetas(const Node &node) {
  if (!node.IsSequence() || node.size() != 2)
    read.failType(node, "betas", "a list of two numbers such as [0.9, 0.999]");
  double betas[2];
  for (size_t i = 0; i < 2; ++i) {
    betas[i] = read.readDouble(node[i], "betas");
    if (betas[i] < 0 || betas[i] >= 1)
      read.fail(ErrorId::ConfigBadValue, node[i],
                "'betas': expected numbers from 0 to less than 1, found " +
                    node[i].Scalar());
  }
  result.config.optimizer.beta1 = betas[0];
  result.config.optimizer.beta2 = betas[1];
}

void ConfigParser::parseEps(const Node &node) {
  result.config.optimizer.eps = readAmount(node, "eps");
}

void ConfigParser::parseMomentum(const Node &node) {
  result.config.optimizer.momentum = readAmount(node, "momentum");
}

void ConfigParser::parseWeightDecay(const Node &node) {
  result.config.optimizer.weightDecay = readAmount(node, "weight_decay");
}

//===----------------------------------------------------------------------===//
// The step
//===----------------------------------------------------------------------===//

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
  for (const char *key : {"optimizer", "max_grad_norm"})
    if (const Node node = root[key]; node.IsDefined() && !node.IsNull())
      result.notes.push_back(read.describePlace(node) + ": '" + key +
                             "' has no effect with mode: inference");
}

void ConfigParser::parseAccumulation(const Node &node) {
  int64_t steps = read.readInt(node, "gradient_accumulation_steps");
  if (steps < 1)
    read.fail(
        ErrorId::ConfigBadValue, node,
        "'gradient_accumulation_steps': expected a number from 1, found " +
            std::to_string(steps));
  if (steps > 1)
    failLater(node, "gradient_accumulation_steps: " + std::to_string(steps),
              "write 1");
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

void ConfigParser::parseSeed(const Node &node) {
  result.config.seed = read.readInt(node, "seed");
  if (result.config.seed < 0)
    read.fail(ErrorId::ConfigBadValue, node,
              "'seed': expected a number from 0, found " + node.Scalar());
}

//===----------------------------------------------------------------------===//
// First values
//===----------------------------------------------------------------------===//

void ConfigParser::parseInit(const Node &node) {
  if (node.IsNull())
    return;
  if (!node.IsMap())
    read.failType(
        node, "init",
        "a map of names and initialisers such as {\"*.bias\": zeros}");
  for (auto entry = node.begin(); entry != node.end(); ++entry) {
    const Node name = entry->first;
    std::string pattern = read.readString(name, "init");
    std::string text = read.readString(entry->second, pattern);
    // In {a: normal(0, 1)} YAML takes the comma for the end of the value and
    // what follows for keys without a value.
    while (std::ranges::count(text, '(') > std::ranges::count(text, ')')) {
      auto next = std::next(entry);
      if (next == node.end() || !next->first.IsScalar() ||
          !next->second.IsNull())
        break;
      text += ", " + next->first.Scalar();
      entry = next;
    }
    try {
      result.config.init.push_back(
          {pattern, parseInitCall(text), read.describePlace(name)});
    } catch (const std::invalid_argument &error) {
      read.fail(ErrorId::ConfigBadValue, name,
                "'init' of '" + pattern + "': " + error.what());
    }
  }
}

void ConfigParser::parseWeights(const Node &node) {
  parseSection("weights", node);
}

void ConfigParser::parseRename(const Node &node) {
  if (!node.IsSequence())
    read.failType(node, "rename",
                  "a list of rules such as {from: \"^net[.]\", to: \"\"}");
  for (const Node &item : node) {
    if (!item.IsMap() || item.size() != 2 || !item["from"].IsDefined() ||
        !item["to"].IsDefined() || !item["to"].IsScalar())
      read.failType(item, "rename", "a rule of 'from' and 'to'");
    RenameRule rule{read.readString(item["from"], "from"), item["to"].Scalar()};
    try {
      std::regex check(rule.from);
    } catch (const std::regex_error &error) {
      read.fail(ErrorId::ConfigBadValue, item["from"],
                "'from': '" + rule.from +
                    "' is no regular expression: " + error.what());
    }
    result.config.weights.rename.push_back(std::move(rule));
  }
}

void ConfigParser::parseIgnore(const Node &node) {
  result.config.weights.ignore = read.readStrings(node, "ignore");
}

void ConfigParser::parseStrict(const Node &node) {
  result.config.weights.strict = read.readBool(node, "strict");
}

void ConfigParser::parseTied(const Node &node) {
  if (node.IsNull())
    return;
  std::set<std::string> seen;
  if (!node.IsSequence())
    read.failType(node, "tied", "a list of lists of names");
  for (const Node &group : node) {
    if (!group.IsSequence() || group.size() < 2)
      read.failType(group, "tied", "a list of two or more names");
    std::vector<std::string> &names = result.config.ties.emplace_back();
    for (const Node &item : group) {
      names.push_back(read.readString(item, "tied"));
      if (!seen.insert(names.back()).second)
        read.fail(ErrorId::ConfigBadValue, item,
                  "'tied': '" + names.back() + "' stands twice; keep one");
    }
  }
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
