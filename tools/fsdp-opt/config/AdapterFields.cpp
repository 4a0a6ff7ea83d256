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

std::optional<int64_t> fsdp::readPissaIterations(const std::string &word) {
  static const std::regex form("pissa_niter_([0-9]{1,3})");
  std::smatch match;
  if (!std::regex_match(word, match, form))
    return std::nullopt;
  return std::stoll(match[1]);
}

/// PEFT's word for a number of iterations has it at its end.
static void readInit(const Value &value, AdapterConfig &adapter) {
  AdapterRequest &request = adapter.request;
  std::optional<int64_t> iterations;
  if (value.node.IsScalar())
    iterations = readPissaIterations(value.node.Scalar());
  request.init =
      iterations ? AdapterInit::Pissa : Choice<AdapterInit>{}.read(value);
  request.iterations = iterations.value_or(0);
}

static void readLayers(const Value &value, AdapterConfig &adapter) {
  auto read = [&](const YAML::Node &node) {
    adapter.request.layers.push_back(
        between(0, 1 << 20).read({value.reading, value.path, value.key, node}));
  };
  if (!value.node.IsSequence())
    return read(value.node);
  for (const YAML::Node &each : value.node)
    read(each);
  if (adapter.request.layers.empty())
    value.fail("'" + value.key +
               "': expected numbers of layers, found none; "
               "leave it out for all of them");
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
          {"layers",
           readLayers,
           "whole number from 0, or list of these",
           "",
           "only in modules of a list, such as `model.layers`, that have one "
           "of "
           "these numbers: PEFT's `layers_to_transform`",
           {.absent = "all"}},
          {"parameters",
           of(&R::parameters),
           NameList{"pattern"},
           "parameters that are adapted themselves, such as all experts' "
           "matrices in one: ends or patterns of their names, PEFT's "
           "`target_parameters`. Whoever reads one gets the sum, and nothing "
           "is dropped",
           {.absent = "none"}},
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
          {"dora", of(&R::hasMagnitudes),
           "each of a layer's outs has a norm of its own, which is trained "
           "(DoRA)"},
          {"init", readInit,
           "`default`, `gaussian`, `pissa`, `pissa_niter_N` or `loftq`",
           "`default`",
           "where the two matrices start. `default`: the first as PEFT's, by "
           "Kaiming's uniform distribution, or `gaussian`, `normal(0, 1/r)`, "
           "and the second zero; of embeddings the first is, and the second "
           "`normal(0, 1)`. `pissa`: with the largest singular vectors of the "
           "layer's matrix, which begins without them; with N iterations of a "
           "randomised decomposition, which is as good and faster. `loftq`: "
           "with those of what `quantize` loses of it"},
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
