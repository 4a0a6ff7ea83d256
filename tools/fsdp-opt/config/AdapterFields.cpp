//===- AdapterFields.cpp - Adapters that the compiler puts in -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/config/Checks.h"
#include "tools/fsdp-opt/config/Tables.h"

#include <regex>

using namespace fsdp;

void fsdp::checkRegex(const YamlReader &read, const YAML::Node &node,
                      const std::string &key, const std::string &text) {
  try {
    std::regex check(text);
  } catch (const std::regex_error &error) {
    read.fail(ErrorId::ConfigBadValue, node,
              "'" + key + "': '" + text +
                  "' is no regular expression (ECMAScript): " + error.what() +
                  "; write names, or patterns such as \"*.self_attn.?_proj\"");
  }
}

/// PEFT's word for what an absent key means.
static void readModules(const Value &value, AdapterConfig &adapter) {
  std::vector<std::string> &modules = adapter.request.modules;
  if (value.node.IsScalar() && value.node.Scalar() == "all-linear")
    return modules.clear();
  modules =
      NameList{"pattern", "leave it out for all linear layers"}.read(value);
  for (const std::string &each : modules)
    if (each.starts_with(kRegexPrefix))
      checkRegex(value.reader(), value.node, value.key,
                 each.substr(kRegexPrefix.size()));
}

static void refuseKind(const Value &value, AdapterConfig &) {
  if (value.node.IsScalar() && value.node.Scalar() == "lora")
    return;
  value.reader().fail(ErrorId::ConfigNotSupported, value.node,
                      "'" + value.key +
                          "' is lora here; adapters of other kinds are applied "
                          "in Python before the export, as docs/examples/lora "
                          "does");
}

static const Table<AdapterConfig> &getAdapter() {
  auto of = [](auto member) {
    return [member](AdapterConfig &adapter) -> auto & {
      return adapter.request.*member;
    };
  };
  using R = AdapterRequest;
  static const Table<AdapterConfig> table = {
      "adapter",
      {
          {"name", refuseKind, "`lora`", "`lora`", "the kind of adapters"},
          {"r", of(&R::rank), between(1, 1 << 20), "their rank"},
          {"alpha", of(&R::alpha), aboveZero(""),
           "what they compute is multiplied by `alpha / r`"},
          {"rslora", of(&R::rankStabilized),
           "what they compute is multiplied by `alpha / sqrt(r)` instead"},
          {"dropout", of(&R::dropout),
           Number{[](double x) { return x >= 0 && x < 1; },
                  "from 0, and below 1"},
           "how much of what they read is dropped in training"},
          {"modules",
           readModules,
           "`all-linear`, pattern, or list of patterns",
           "",
           "which layers get one: patterns of their paths, or of modules "
           "around linear layers; a name without dots, as `q_proj`, is a "
           "module's own, as in PEFT, and `re:` is in front of a regular "
           "expression of the whole path. Linear layers, transformers' Conv1D, "
           "embeddings and convolutions can have one",
           {.absent = "`all-linear`: but for what computes the output"}},
          {"skip_modules",
           of(&R::skip),
           NameList{"pattern"},
           "the same of layers that get none",
           {.absent = "none"}},
          {"also_train",
           of(&R::alsoTrain),
           NameList{"pattern"},
           "parameters, or modules with all in them, that are trained "
           "themselves: PEFT's `modules_to_save`",
           {.absent = "none"}},
          {"bias", of(&R::bias), Choice<TrainedBias>{},
           "which biases are trained: `none`, `all` of the model, or "
           "`lora_only`, those of the layers that get adapters"},
          {"init", of(&R::init), Choice<AdapterInit>{},
           "where the first of the two matrices starts: `default`, as "
           "PEFT's, by Kaiming's uniform distribution, or `gaussian`, "
           "`normal(0, 1/r)`. The second is zero; of embeddings the first is, "
           "and the second `normal(0, 1)`"},
          {"lr_b_ratio",
           &AdapterConfig::ratio,
           aboveZero(""),
           "the second matrices are trained with so many times the learning "
           "rate (LoRA+)",
           {.absent = "`1`"}},
      }};
  return table;
}

Field<Config> fsdp::getAdapterField() {
  return section<Config>(
      "adapter", &Config::adapter, getAdapter(),
      "low-rank adapters that layers get, as PEFT would give them; all else is "
      "frozen, [see Adapters.md](Adapters.md)",
      {.absent = "none", .mayBeEmpty = true});
}
