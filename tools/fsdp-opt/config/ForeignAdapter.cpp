//===- ForeignAdapter.cpp - Other tools' keys of adapters -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Whatever a tool calls them, keys of adapters become one map, whose names are
// PEFT's where it has any. What is done with it, applyAdapter says.
//
//===----------------------------------------------------------------------===//

#include "tools/fsdp-opt/config/Checks.h"
#include "tools/fsdp-opt/config/Fields.h"
#include "tools/fsdp-opt/config/Foreign.h"
#include "tools/fsdp-opt/config/ForeignKeys.h"
#include "tools/fsdp-opt/config/ForeignReaders.h"

#include <algorithm>
#include <sstream>
#include <type_traits>

using namespace fsdp;
using namespace fsdp::foreign;
using enum ForeignKey::Action;

//===----------------------------------------------------------------------===//
// One map
//===----------------------------------------------------------------------===//

/// Files of Axolotl name what only counts with an adapter in any case.
static void keep(const Value &value, const char *own, const YAML::Node &as) {
  if (!value.reading.adapterKeys
           .try_emplace(own, AdapterKey{value.key, value.node, as})
           .second)
    value.fail("another key of adapters says '" + std::string(own) +
               "', too; keep one");
}

static void keep(const Value &value, const char *own) {
  keep(value, own, value.node);
}

static void keepIfOn(const Value &value, const char *own) {
  if (!isOff(value.node))
    keep(value, own);
}

static void readRank(const Value &value) {
  between(1, 1 << 16).read(value);
  keep(value, "r");
}
static void readAlpha(const Value &value) {
  kFromZero.read(value);
  keep(value, "alpha");
}
static void readDropout(const Value &value) {
  kBeta.read(value);
  keep(value, "dropout");
}
static void readModules(const Value &value) {
  if (value.node.IsSequence() && !value.node.size())
    return;
  // LLaMA-Factory's word, and PEFT's.
  bool isAll = value.node.IsScalar() && value.node.Scalar() == "all";
  keep(value, "modules", isAll ? YAML::Node("all-linear") : value.node);
}
static void readAllLinear(const Value &value) {
  if (Flag().read(value))
    keep(value, "linear");
}
static void readParameters(const Value &value) { keep(value, "parameters"); }
static void readExcluded(const Value &value) { keep(value, "exclude_modules"); }
static void readLayers(const Value &value) {
  Whole number = between(0, 1 << 20);
  if (value.node.IsSequence()) {
    for (const YAML::Node &each : value.node)
      number.read({value.reading, value.path, value.key, each});
    if (!value.node.size())
      return;
  } else {
    number.read(value);
  }
  keep(value, "layers");
}
static void readSaved(const Value &value) { keep(value, "modules_to_save"); }
static void readDora(const Value &value) { keepIfOn(value, "dora"); }
static void readRslora(const Value &value) { keepIfOn(value, "rslora"); }
static void readBias(const Value &value) { keepIfOn(value, "bias"); }
static void readInit(const Value &value) { keep(value, "init"); }
/// LLaMA-Factory's, which iterates unless it is told not to.
static void readPissa(const Value &value) {
  if (Flag().read(value))
    keep(value, "init", YAML::Node("pissa_niter_16"));
}
static void readPissaIterations(const Value &value) {
  between(-1, 999).read(value);
  keep(value, "iterations");
}
static void readKind(const Value &value) { keep(value, "name"); }
static void readRatio(const Value &value) {
  aboveZero("").read(value);
  keep(value, "lr_b_ratio");
}

/// A map is the config's own key.
static bool isWord(const YAML::Node &node) { return !node.IsMap(); }

/// TRL's switch.
static void readUsePeft(const Value &value) {
  if (Flag().read(value))
    keep(value, "name", YAML::Node("lora"));
}

/// Axolotl's word.
static void readAdapter(const Value &value) {
  static constexpr std::string_view words[] = {"lora", "qlora", "dora"};
  std::string word = value.reader().readChoice(value.node, value.key, words);
  readKind(value);
  // Which codes scales, too.
  if (word == "qlora")
    takeQuantized(value, QuantizeChoice::Nf4, /*isDouble=*/true);
}

/// LLaMA-Factory's.
static void readTuning(const Value &value) {
  static constexpr std::string_view words[] = {"lora", "full", "freeze"};
  std::string word = value.reader().readChoice(value.node, value.key, words);
  if (word == "lora")
    return readKind(value);
  if (word == "full")
    return value.reading.classify(KeyOutcome::Nothing, "asks for nothing");
  constexpr const char *why =
      "the exported model's requires_grad says what is trained";
  value.reading.classify(KeyOutcome::Warned, why);
  value.reading.addWarning(value.node, "'" + value.key +
                                           ": freeze' is not "
                                           "taken from here: " +
                                           why);
}

/// What a key asks for that no adapter of the config has: such adapters are a
/// matter of the exported model. Empty if there is none.
static std::string findObstacle(Reading &reading) {
  auto init = reading.adapterKeys.find("init");
  if (init == reading.adapterKeys.end())
    return {};
  const AdapterKey &key = init->second;
  std::string word = key.as.IsScalar() ? key.as.Scalar() : "";
  static constexpr std::string_view known[] = {"true", "default", "gaussian",
                                               "pissa", "loftq"};
  if (std::ranges::find(known, word) != std::end(known) ||
      fsdp::readPissaIterations(word))
    return {};
  std::string message =
      "'" + key.key +
      "' needs a model that was exported with such adapters, as "
      "docs/examples/lora does: they start by default, or as 'gaussian', "
      "'pissa' or 'loftq'";
  reading.addNote(key.value, message);
  return reading.read.describePlace(key.value) + ": " + message;
}

/// Names between commas as LLaMA-Factory's, a regular expression as PEFT's, or
/// a list of names.
static std::vector<std::string> readNames(const Reading &reading,
                                          const AdapterKey &key) {
  std::vector<std::string> names;
  if (!key.as.IsScalar()) {
    for (const YAML::Node &each : key.as)
      names.push_back(each.Scalar());
    return names;
  }
  std::string text = key.as.Scalar();
  if (text.find_first_of("\\()[]{}|^$+*?") != std::string::npos) {
    checkRegex(reading.read, key.value, key.key, text);
    return {std::string(kRegexPrefix) + text};
  }
  std::istringstream stream(text);
  for (std::string each; std::getline(stream, each, ',');)
    if (size_t begin = each.find_first_not_of(' '); begin != std::string::npos)
      names.push_back(
          each.substr(begin, each.find_last_not_of(' ') + 1 - begin));
  return names;
}

/// In keys of this project.
static YAML::Node toNode(const std::vector<std::string> &names) {
  YAML::Node node(YAML::NodeType::Sequence);
  for (const std::string &name : names)
    node.push_back(name);
  return node;
}

/// Of words that have no obstacle.
static void takeInit(const Reading &reading, AdapterRequest &asked,
                     YAML::Node &map) {
  auto it = reading.adapterKeys.find("init");
  if (it == reading.adapterKeys.end() || !asked.obstacle.empty())
    return;
  std::string word = it->second.as.Scalar();
  if (auto own = reading.adapterKeys.find("iterations");
      own != reading.adapterKeys.end() && word.starts_with("pissa")) {
    auto count = own->second.as.as<int64_t>();
    word = count <= 0 ? "pissa" : "pissa_niter_" + std::to_string(count);
  }
  if (word == "true" || word == "default")
    return;
  std::optional<int64_t> iterations = fsdp::readPissaIterations(word);
  asked.iterations = iterations.value_or(0);
  asked.init = word == "gaussian" ? AdapterInit::Gaussian
               : word == "loftq"  ? AdapterInit::Loftq
                                  : AdapterInit::Pissa;
  map["init"] = word;
}

/// As the config's own key. A model that has adapters keeps these: files of
/// other tools go with both kinds of models.
void fsdp::applyAdapter(Reading &reading) {
  auto name = reading.adapterKeys.find("name");
  if (name == reading.adapterKeys.end())
    return;
  std::string kind = name->second.as.Scalar();
  AdapterConfig adapter;
  AdapterRequest &asked = adapter.request;
  asked.yieldsToOwn = true;
  asked.obstacle = findObstacle(reading);
  auto find = [&](const char *own) -> const AdapterKey * {
    auto it = reading.adapterKeys.find(own);
    return it == reading.adapterKeys.end() ? nullptr : &it->second;
  };
  YAML::Node map(YAML::NodeType::Map);
  map["name"] = "lora";
  auto take = [&](const char *own, const char *here, auto &member) {
    if (const AdapterKey *key = find(own)) {
      member = key->as.as<std::remove_reference_t<decltype(member)>>();
      map[here] = key->as;
    }
  };
  take("r", "r", asked.rank);
  take("alpha", "alpha", asked.alpha);
  take("dropout", "dropout", asked.dropout);
  const AdapterKey *modules = find("modules");
  bool isAll = find("linear") || (modules && modules->as.IsScalar() &&
                                  modules->as.Scalar() == "all-linear");
  if (isAll) {
    map["modules"] = "all-linear";
  } else if (modules) {
    asked.modules = readNames(reading, *modules);
    map["modules"] = toNode(asked.modules);
  }
  if (const AdapterKey *excluded = find("exclude_modules")) {
    asked.skip = readNames(reading, *excluded);
    map["skip_modules"] = toNode(asked.skip);
  }
  if (const AdapterKey *saved = find("modules_to_save")) {
    asked.alsoTrain = readNames(reading, *saved);
    map["also_train"] = toNode(asked.alsoTrain);
  }
  if (const AdapterKey *bias = find("bias")) {
    asked.bias = Choice<TrainedBias>{}.read(
        {reading, "adapter.bias", bias->key, bias->as});
    map["bias"] = bias->as;
  }
  takeInit(reading, asked, map);
  if (kind == "dora" || find("dora"))
    map["dora"] = asked.hasMagnitudes = true;
  if (const AdapterKey *parameters = find("parameters")) {
    asked.parameters = readNames(reading, *parameters);
    map["parameters"] = toNode(asked.parameters);
  }
  if (const AdapterKey *layers = find("layers")) {
    if (layers->as.IsScalar())
      asked.layers = {layers->as.as<int64_t>()};
    else
      asked.layers = layers->as.as<std::vector<int64_t>>();
    map["layers"] = layers->as;
  }
  if (find("rslora"))
    map["rslora"] = asked.rankStabilized = true;
  if (const AdapterKey *ratio = find("lr_b_ratio")) {
    adapter.ratio = ratio->as.as<double>();
    map["lr_b_ratio"] = ratio->as;
  }
  reading.result.config.adapter = std::move(adapter);
  if (!reading.result.config.adapter->request.obstacle.empty())
    return;
  for (const auto &each : map)
    reading.become("adapter." + each.first.Scalar(), each.second);
  reading.addNote(name->second.value,
                  "'" + name->second.key +
                      "' is taken as adapter: " + printFlow(map) +
                      ", unless the exported model has adapters already");
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

namespace {
constexpr unsigned tools = Axolotl | LlamaFactory | Trl;
constexpr std::string_view started =
    "name the folder with --weights=DIR, in front of the base's: adapters go "
    "on from there";
constexpr std::string_view peft =
    "the exported model's adapters are as PEFT made them";

constexpr ForeignKey adapterKeys[] = {
    taken(Axolotl, "", "adapter", "", readAdapter,
          "a map of `adapter` from the keys below, unless the exported model "
          "has adapters; `qlora` also `quantize: {kind: nf4, double_quant: "
          "true}`, "
          "unless that is given")
        .quietIfOff()
        .only(isWord),
    taken(LlamaFactory, "", "finetuning_type", "", readTuning,
          "`lora`: as `adapter`; `full`: nothing")
        .quietIfOff(),
    taken(Trl, "", "use_peft", "", readUsePeft, "as `adapter: lora`")
        .quietIfOff(),
    taken(tools, "", "lora_r lora_rank", "", readRank, "`adapter.r`"),
    taken(tools, "", "lora_alpha", "", readAlpha, "`adapter.alpha`"),
    taken(tools, "", "lora_dropout", "", readDropout, "`adapter.dropout`"),
    taken(tools, "", "lora_target_modules lora_target", "", readModules,
          "`adapter.modules`"),
    taken(Axolotl, "", "lora_target_linear", "", readAllLinear,
          "`adapter.modules: all-linear`")
        .quietIfOff(),
    taken(tools, "", "lora_exclude_modules exclude_modules", "", readExcluded,
          "`adapter.skip_modules`"),
    taken(tools, "", "lora_target_parameters", "", readParameters,
          "`adapter.parameters`"),
    taken(Axolotl, "", "peft_layers_to_transform", "", readLayers,
          "`adapter.layers`"),
    taken(tools, "", "lora_modules_to_save additional_target", "", readSaved,
          "`adapter.also_train`"),
    taken(tools, "", "peft_use_dora use_dora lora_use_dora", "", readDora,
          "`adapter.dora`"),
    taken(tools, "", "peft_use_rslora use_rslora", "", readRslora,
          "`adapter.rslora`"),
    taken(tools, "", "lora_bias", "", readBias, "`adapter.bias`"),
    taken(Axolotl, "", "peft_init_lora_weights", "", readInit,
          "`adapter.init`"),
    taken(LlamaFactory, "", "pissa_init", "", readPissa,
          "`adapter.init: pissa_niter_16`")
        .quietIfOff(),
    taken(LlamaFactory, "", "pissa_iter", "", readPissaIterations,
          "the number in `adapter.init`; -1: `pissa`"),
    told(LlamaFactory, Ignored, "",
         "an export of adapters is always of those that add to the model as "
         "it was",
         "pissa_convert"),
    told(tools, Changes, "", peft,
         "peft lora_layers_pattern lora_layer_replication create_new_adapter"),
    told(tools, Changes, "", started, "lora_model_dir adapter_name_or_path"),
    told(tools, Ignored, "",
         "kernels and where adapters are merged are the "
         "compiler's and the export's",
         "lora_fan_in_fan_out lora_mlp_kernel lora_qkv_kernel lora_o_kernel "
         "lora_embedding_kernel lora_on_cpu merge_lora lora_task_type "
         "peft_autocast_adapter_dtype nvfp4_merge_aware"),
    taken(tools, "", "loraplus_lr_ratio", "", readRatio,
          "`adapter.lr_b_ratio`"),
    told(tools, Moved, "",
         "is optimizer: {groups: [{params: \"*lora_embedding_B*\", lr: …}]} "
         "here",
         "loraplus_lr_embedding"),
};
} // namespace

std::span<const ForeignKey> foreign::getAdapterKeys() { return adapterKeys; }
