//===- ForeignQuantize.cpp - Other tools' keys of bases in codes ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One key of a file asks for codes, others say which; in any order. What comes
// of them together, applyQuantize says.
//
//===----------------------------------------------------------------------===//

#include "tools/fsdp-opt/config/Fields.h"
#include "tools/fsdp-opt/config/Foreign.h"
#include "tools/fsdp-opt/config/ForeignKeys.h"
#include "tools/fsdp-opt/config/ForeignReaders.h"

#include <algorithm>
#include <iterator>
#include <utility>

using namespace fsdp;
using namespace fsdp::foreign;
using enum ForeignKey::Action;

static void keepQuantize(const Value &value, const char *own) {
  auto [it, isNew] = value.reading.quantizeKeys.try_emplace(
      own, AdapterKey{value.key, value.node, value.node});
  if (!isNew && it->second.value.Scalar() != value.node.Scalar())
    value.fail("'" + it->second.key + "' says otherwise; keep one");
}

void foreign::takeQuantized(const Value &value, QuantizeChoice kind,
                            bool isDouble) {
  Reading &reading = value.reading;
  auto &keys = reading.quantizeKeys;
  keys.try_emplace("by", AdapterKey{value.key, value.node, value.node});
  keys.try_emplace(kind == QuantizeChoice::Int8 ? "8 bits" : "4 bits",
                   AdapterKey{value.key, value.node, value.node});
  if (isDouble)
    keys.try_emplace("usually double",
                     AdapterKey{value.key, value.node, value.node});
  reading.imply("quantize", value);
}

/// bitsandbytes' through transformers.
static void readLoadIn4Bit(const Value &value) {
  if (Flag().read(value))
    takeQuantized(value, QuantizeChoice::Nf4);
}

static void readLoadIn8Bit(const Value &value) {
  if (Flag().read(value))
    takeQuantized(value, QuantizeChoice::Int8);
}

/// LLaMA-Factory's, which codes scales unless it is told not to.
static void readBits(const Value &value) {
  int64_t bits = between(1, 16).read(value);
  if (bits != 4 && bits != 8)
    value.reader().fail(ErrorId::ConfigNotSupported, value.node,
                        "'" + value.key + "': expected 4 or 8 bits, found " +
                            value.node.Scalar());
  takeQuantized(value, bits == 4 ? QuantizeChoice::Nf4 : QuantizeChoice::Int8,
                /*isDouble=*/bits == 4);
}

static void readQuantizeKind(const Value &value) {
  static constexpr std::string_view words[] = {"nf4", "fp4"};
  value.reader().readChoice(value.node, value.key, words);
  keepQuantize(value, "kind");
}

static void readDouble(const Value &value) {
  Flag().read(value);
  keepQuantize(value, "double_quant");
}

static void readBlockSize(const Value &value) {
  kBlockSize.read(value);
  keepQuantize(value, "block_size");
}

/// transformers' BitsAndBytesConfig.
static void readBnb(const Value &value) {
  static constexpr std::pair<std::string_view, void (*)(const Value &)>
      readers[] = {{"load_in_4bit", readLoadIn4Bit},
                   {"load_in_8bit", readLoadIn8Bit},
                   {"bnb_4bit_quant_type", readQuantizeKind},
                   {"bnb_4bit_use_double_quant", readDouble},
                   {"bnb_4bit_blocksize", readBlockSize},
                   // Of what is said elsewhere, or of no concern here.
                   {"quant_method", nullptr},
                   {"bnb_4bit_compute_dtype", nullptr},
                   {"bnb_4bit_quant_storage", nullptr}};
  if (!value.node.IsMap())
    value.failType("a map of keys and values");
  for (const auto &entry : value.node) {
    std::string key = entry.first.Scalar();
    auto it = std::ranges::find(readers, key,
                                [](const auto &each) { return each.first; });
    if (it == std::end(readers))
      value.reader().fail(ErrorId::ConfigNotSupported, entry.first,
                          "'" + key +
                              "' cannot be had: quantize: {…} says which "
                              "matrices are held in blocks of codes");
    if (it->second)
      it->second({value.reading, value.path, key, entry.second});
  }
}

/// The kind, size and scales that the keys ask for together.
static QuantizeConfig combine(Reading &reading) {
  auto find = [&](const char *own) -> const AdapterKey * {
    auto it = reading.quantizeKeys.find(own);
    return it == reading.quantizeKeys.end() ? nullptr : &it->second;
  };
  const AdapterKey *whole = find("8 bits"), *half = find("4 bits");
  if (whole && half)
    Value{reading, "quantize", whole->key, whole->value}.fail(
        "'" + half->key + "' asks for another kind of blocks; keep one");
  QuantizeConfig quantize;
  // bitsandbytes has the others of 4 bits alone.
  if (whole) {
    quantize.kind = QuantizeChoice::Int8;
    return quantize;
  }
  if (const AdapterKey *kind = find("kind");
      kind && kind->value.Scalar() == "fp4")
    quantize.kind = QuantizeChoice::Fp4;
  if (const AdapterKey *size = find("block_size"))
    quantize.blockSize = size->value.as<int64_t>();
  const AdapterKey *nested = find("double_quant");
  quantize.doubleQuant =
      nested ? nested->value.as<bool>() : find("usually double") != nullptr;
  return quantize;
}

void fsdp::applyQuantize(Reading &reading) {
  auto by = reading.quantizeKeys.find("by");
  if (by == reading.quantizeKeys.end())
    return;
  YAML::Node map(YAML::NodeType::Map);
  if (!reading.find("quantize")) {
    QuantizeConfig quantize = combine(reading);
    map["kind"] = quantize.kind == QuantizeChoice::Int8  ? "int8"
                  : quantize.kind == QuantizeChoice::Fp4 ? "fp4"
                                                         : "nf4";
    if (quantize.blockSize != QuantizeConfig().blockSize)
      map["block_size"] = quantize.blockSize;
    if (quantize.doubleQuant)
      map["double_quant"] = true;
    for (const auto &each : map)
      reading.become("quantize." + each.first.Scalar(), each.second);
    reading.result.config.quantize = std::move(quantize);
  }
  reading.addNote(
      by->second.value,
      "'" + by->second.key +
          "' is taken as quantize: " + (map.size() ? printFlow(map) : "{…}") +
          ", unless that is given; an output layer that is frozen is among "
          "them, skip_modules: lm_head leaves it out");
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

namespace {
constexpr std::string_view quantised =
    "parameters keep the type in which they were exported, or quantize: {kind: "
    "nf4}, fp4 or int8 holds frozen ones";

constexpr ForeignKey quantizeKeys[] = {
    taken(OfTrainer, "", "load_in_4bit", "", readLoadIn4Bit,
          "`quantize: {kind: nf4}`, unless that is given; with Axolotl's "
          "`adapter: qlora` also `double_quant: true`, as there")
        .quietIfOff(),
    taken(OfTrainer, "", "load_in_8bit", "", readLoadIn8Bit,
          "`quantize: {kind: int8}`, unless that is given")
        .quietIfOff(),
    taken(LlamaFactory, "", "quantization_bit", "", readBits,
          "4: `quantize: {kind: nf4, double_quant: true}`, as there, 8: int8, "
          "unless that is given")
        .quietIfOff(),
    taken(LlamaFactory | Trl, "", "quantization_type bnb_4bit_quant_type", "",
          readQuantizeKind, "`quantize.kind`, with a key that asks for 4 bits"),
    taken(LlamaFactory | Trl, "",
          "double_quantization use_bnb_nested_quant bnb_4bit_use_double_quant",
          "", readDouble,
          "`quantize.double_quant`, with a key that asks for 4 bits"),
    taken(LlamaFactory | Trl, "", "bnb_4bit_blocksize", "", readBlockSize,
          "`quantize.block_size`, with a key that asks for 4 bits"),
    taken(Axolotl, "", "bnb_config_kwargs", "", readBnb,
          "the same of a `BitsAndBytesConfig`"),
    taken(OfTrainer, "", "quantization_config", "", readBnb,
          "the same of a `BitsAndBytesConfig`"),
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

std::span<const ForeignKey> foreign::getQuantizeKeys() { return quantizeKeys; }
