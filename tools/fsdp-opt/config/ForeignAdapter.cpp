//===- ForeignAdapter.cpp - Other tools' keys of adapters -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Whatever a tool calls them, keys of adapters become one map, whose names are
// PEFT's where it has any. What is done with it, applyAdapter says.
//
//===----------------------------------------------------------------------===//

#include "tools/fsdp-opt/config/Fields.h"
#include "tools/fsdp-opt/config/Foreign.h"
#include "tools/fsdp-opt/config/ForeignKeys.h"
#include "tools/fsdp-opt/config/ForeignReaders.h"

#include <algorithm>

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
static void readLayers(const Value &value) { keep(value, "layers"); }
static void readSaved(const Value &value) { keep(value, "modules_to_save"); }
static void readDora(const Value &value) { keepIfOn(value, "dora"); }
static void readRslora(const Value &value) { keepIfOn(value, "rslora"); }
static void readBias(const Value &value) { keepIfOn(value, "bias"); }
static void readInit(const Value &value) { keep(value, "init"); }
static void readPissa(const Value &value) {
  if (Flag().read(value))
    keep(value, "init", YAML::Node("pissa"));
}
static void readKind(const Value &value) { keep(value, "name"); }

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
  if (word == "qlora")
    takeQuantized(value, QuantizeChoice::Nf4);
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

/// "{name: lora, r: 16, alpha: 32}"
static std::string printAdapter(const Reading &reading,
                                const std::string &kind) {
  static constexpr std::string_view order[] = {
      "r",      "alpha", "dropout", "modules",    "modules_to_save",
      "layers", "bias",  "init",    "parameters", "rslora",
      "dora"};
  std::string text = "{name: " + std::string(kind == "qlora" ? "lora" : kind);
  // Modules that are named beside all linear ones are among them.
  bool isAll = reading.adapterKeys.contains("linear");
  for (std::string_view key : order) {
    auto it = reading.adapterKeys.find(key);
    if (key == "modules" && isAll)
      text += ", modules: all-linear";
    else if (it != reading.adapterKeys.end())
      text += ", " + std::string(key) + ": " + printFlow(it->second.as);
  }
  return text + "}";
}

/// The exported model has adapters, or none; which it is, is seen when it is
/// compiled.
void fsdp::applyAdapter(Reading &reading) {
  auto name = reading.adapterKeys.find("name");
  if (name == reading.adapterKeys.end())
    return;
  const AdapterKey &key = name->second;
  std::string kind = key.as.Scalar();
  std::string own = printAdapter(reading, kind);
  reading.addNote(key.value, "'" + key.key + "' asks for adapter: " + own +
                                 ", which the exported model has to have");
  reading.result.adapter = {kind, reading.read.describePlace(key.value),
                            std::move(own)};
}

//===----------------------------------------------------------------------===//
// The base
//===----------------------------------------------------------------------===//

/// LLaMA-Factory's.
static void readBits(const Value &value) {
  int64_t bits = between(1, 16).read(value);
  if (bits != 4 && bits != 8)
    value.reader().fail(ErrorId::ConfigNotSupported, value.node,
                        "'" + value.key + "': expected 4 or 8 bits, found " +
                            value.node.Scalar());
  takeQuantized(value, bits == 4 ? QuantizeChoice::Nf4 : QuantizeChoice::Int8);
}

static void readCodes(const Value &value) {
  if (value.node.Scalar() != "nf4")
    value.reader().fail(ErrorId::ConfigNotSupported, value.node,
                        "'" + value.key + "': expected nf4, found " +
                            value.node.Scalar() +
                            "; blocks of codes are nf4 or int8");
}

static constexpr std::string_view kDouble =
    "is not done: scales of blocks stay in float32, which is more exact and "
    "takes 0.06 bytes an element";

/// transformers' BitsAndBytesConfig.
static void readBnb(const Value &value) {
  if (!value.node.IsMap())
    value.failType("a map of keys and values");
  for (const auto &entry : value.node) {
    std::string key = entry.first.Scalar();
    Value each{value.reading, value.path, key, entry.second};
    if (key == "bnb_4bit_quant_type")
      readCodes(each);
    else if (key == "bnb_4bit_use_double_quant" && !isOff(entry.second))
      value.reading.addNote(entry.second,
                            "'" + key + "' " + std::string(kDouble));
    else if (key != "bnb_4bit_use_double_quant" &&
             key != "bnb_4bit_compute_dtype" &&
             key != "bnb_4bit_quant_storage" && key != "load_in_4bit")
      value.reader().fail(ErrorId::ConfigNotSupported, entry.first,
                          "'" + key +
                              "' cannot be had: quantize: {…} says which "
                              "matrices are held in blocks of codes");
  }
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

namespace {
constexpr unsigned tools = Axolotl | LlamaFactory | Trl;
constexpr std::string_view quantised =
    "parameters keep the type in which they were exported, or quantize: {kind: "
    "nf4} or int8 holds frozen ones";
constexpr std::string_view started =
    "adapters start from the exported model's values, or those of fsdp-run "
    "--weights";
constexpr std::string_view peft =
    "the exported model's adapters are as PEFT made them";

constexpr ForeignKey keys[] = {
    taken(Axolotl, "", "adapter", "", readAdapter,
          "nothing: adapters are the exported model's, which has to have "
          "frozen parameters; `qlora` also `quantize: {kind: nf4}`, unless "
          "that is given")
        .quietIfOff(),
    taken(LlamaFactory, "", "finetuning_type", "", readTuning,
          "`lora`: as `adapter`; `full`: nothing")
        .quietIfOff(),
    taken(Trl, "", "use_peft", "", readUsePeft, "as `adapter: lora`")
        .quietIfOff(),
    taken(tools, "", "lora_r lora_rank", "", readRank,
          "`r` of the exported model's adapters"),
    taken(tools, "", "lora_alpha", "", readAlpha, "their `alpha`"),
    taken(tools, "", "lora_dropout", "", readDropout, "their `dropout`"),
    taken(tools, "", "lora_target_modules lora_target", "", readModules,
          "their `modules`"),
    taken(Axolotl, "", "lora_target_linear", "", readAllLinear,
          "their `modules`: all linear layers")
        .quietIfOff(),
    taken(tools, "", "lora_target_parameters", "", readParameters,
          "their `parameters`"),
    taken(Axolotl, "", "peft_layers_to_transform", "", readLayers,
          "their `layers`"),
    taken(tools, "", "lora_modules_to_save additional_target", "", readSaved,
          "their `modules_to_save`"),
    taken(tools, "", "peft_use_dora use_dora lora_use_dora", "", readDora,
          "their `dora`"),
    taken(tools, "", "peft_use_rslora use_rslora", "", readRslora,
          "their `rslora`"),
    taken(tools, "", "lora_bias", "", readBias, "their `bias`"),
    taken(Axolotl, "", "peft_init_lora_weights", "", readInit, "their `init`"),
    taken(LlamaFactory, "", "pissa_init", "", readPissa, "their `init`")
        .quietIfOff(),
    told(tools, Changes, "", peft,
         "peft lora_layers_pattern lora_layer_replication pissa_iter "
         "pissa_convert create_new_adapter"),
    told(tools, Changes, "", started, "lora_model_dir adapter_name_or_path"),
    told(tools, Ignored, "",
         "kernels and where adapters are merged are the "
         "compiler's and the export's",
         "lora_fan_in_fan_out lora_mlp_kernel lora_qkv_kernel lora_o_kernel "
         "lora_embedding_kernel lora_on_cpu merge_lora lora_task_type "
         "peft_autocast_adapter_dtype nvfp4_merge_aware"),
    told(tools, Moved, "",
         "is optimizer: {groups: [{params: \"*lora_B*\", lr: …}]} here",
         "loraplus_lr_ratio loraplus_lr_embedding"),

    taken(OfTrainer, "", "load_in_4bit", "", readLoadIn4Bit,
          "`quantize: {kind: nf4}`, unless that is given")
        .quietIfOff(),
    taken(OfTrainer, "", "load_in_8bit", "", readLoadIn8Bit,
          "`quantize: {kind: int8}`, unless that is given")
        .quietIfOff(),
    taken(LlamaFactory, "", "quantization_bit", "", readBits,
          "4: `quantize: {kind: nf4}`, 8: int8, unless that is given")
        .quietIfOff(),
    taken(LlamaFactory | Trl, "", "quantization_type bnb_4bit_quant_type", "",
          readCodes, "nothing: `nf4` alone"),
    taken(Axolotl, "", "bnb_config_kwargs", "", readBnb,
          "nothing: `nf4` alone, with scales of blocks in float32"),
    told(LlamaFactory | Trl, Noted, "", kDouble,
         "double_quantization use_bnb_nested_quant"),
    told(LlamaFactory, Ignored, "", "quantize: {…} says how",
         "quantization_method quantization_device_map "
         "bnb_4bit_compute_dtype bnb_4bit_quant_storage"),
    told(Axolotl, Changes, "",
         "experts in one tensor are quantised where quantize: {modules: "
         "[\"*\", \"*.experts.gate_up_proj\", \"*.experts.down_proj\"]} names "
         "them; without that they keep their type",
         "quantize_moe_experts"),
    told(Axolotl, Refused, "", quantised,
         "gptq quantization quantize_moments dsv4_fp4_grouped_mode"),
};
} // namespace

std::span<const ForeignKey> foreign::getAdapterKeys() { return keys; }
