//===- ForeignOptimizer.cpp - Other tools' keys of the optimizer ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/config/Fields.h"
#include "tools/fsdp-opt/config/Foreign.h"
#include "tools/fsdp-opt/config/ForeignReaders.h"

#include <algorithm>

using namespace fsdp;

//===----------------------------------------------------------------------===//
// Words
//===----------------------------------------------------------------------===//

namespace {
struct Word {
  std::string_view word;
  OptimizerKind kind = OptimizerKind::adamw;
  std::optional<StateChoice> states = {};
  bool isPaged = false; ///< states move to the host where memory is short
  bool is4Bit = false;  ///< which there is not
};
constexpr Word kWords[] = {
    {"adamw_torch"},
    {"adamw_torch_fused"},
    {"adamw_torch_xla"},
    {"adamw_torch_npu_fused"},
    {"adamw_apex_fused"},
    {"adamw_hf"},
    {"adamw_torch_8bit", OptimizerKind::adamw, StateChoice::Int8},
    {"adamw_8bit", OptimizerKind::adamw, StateChoice::Int8},
    {"adamw_bnb_8bit", OptimizerKind::adamw, StateChoice::Int8},
    {"ao_adamw_8bit", OptimizerKind::adamw, StateChoice::Int8},
    {"ao_adamw_fp8", OptimizerKind::adamw, StateChoice::Float8},
    {"adamw_torch_4bit", OptimizerKind::adamw, StateChoice::Int8, false, true},
    {"ao_adamw_4bit", OptimizerKind::adamw, StateChoice::Int8, false, true},
    {"paged_adamw_8bit", OptimizerKind::adamw, StateChoice::Int8, true},
    {"paged_adamw_32bit", OptimizerKind::adamw, {}, true},
    {"paged_adamw", OptimizerKind::adamw, {}, true},
    {"sgd", OptimizerKind::sgd}};

/// Parts of words that name what there is not.
constexpr std::string_view kOthers[] = {
    "lion",    "ademamix", "adafactor",     "adagrad", "rmsprop",
    "galore",  "lomo",     "schedule_free", "apollo",  "stable_adamw",
    "came",    "muon",     "grokadamw",     "dion",    "anyprecision",
    "optimi_", "flash_",   "sinkgd",        "prodigy", "shampoo"};

/// The nearest word that there is.
std::string_view nearestWord(std::string_view word) {
  bool isNarrow = word.ends_with("8bit") || word.ends_with("4bit");
  if (word.starts_with("paged_"))
    return isNarrow ? "paged_adamw_8bit" : "paged_adamw_32bit";
  return isNarrow ? "adamw_bnb_8bit" : "adamw_torch";
}

std::string_view nameOf(StateChoice states) {
  return states == StateChoice::Int8     ? "int8"
         : states == StateChoice::Float8 ? "float8"
                                         : "bfloat16";
}

std::string listOptimizers() {
  std::string text;
  for (const OptimizerFacts &each : getOptimizers())
    text += (text.empty() ? "" : ", ") + std::string(each.name);
  return text;
}

std::string listWords() {
  std::string text;
  for (const Word &each : kWords)
    text += (text.empty()                              ? ""
             : &each != &kWords[std::size(kWords) - 1] ? ", "
                                                       : " or ") +
            std::string(each.word);
  return text;
}
} // namespace

void fsdp::readOptimizerWord(const Value &value, OptimizerConfig &optimizer) {
  const Word *word =
      std::ranges::find(kWords, value.node.Scalar(), &Word::word);
  const std::string &text = value.node.Scalar();
  if (std::ranges::any_of(kOthers, [&](std::string_view each) {
        return text.find(each) != std::string::npos;
      }))
    value.reader().fail(
        ErrorId::ConfigNotSupported, value.node,
        "'" + value.key + ": " + text + "' cannot be had: the optimizers are " +
            listOptimizers() + "; write " + std::string(nearestWord(text)) +
            " for AdamW with states as wide");
  if (word == std::end(kWords))
    value.failType("a map such as {name: adamw, lr: 1.0e-3}, or " +
                   listWords() + " as in transformers");
  optimizer.kind = word->kind;
  Reading &reading = value.reading;
  std::string name(getFacts(word->kind).name);
  reading.becomeValue("optimizer.name", name);
  std::string states;
  if (word->states) {
    optimizer.stateDType = *word->states;
    states = nameOf(*word->states);
    reading.becomeValue("optimizer.state_dtype", states);
  }
  reading.pagesStates = word->isPaged;
  reading.addNote(
      value.node,
      "'" + value.key + ": " + std::string(word->word) +
          "' is taken as optimizer: {name: " + name + ", weight_decay: 0" +
          (states.empty() ? "" : ", state_dtype: " + states) +
          "}, transformers' defaults" +
          (word->isPaged ? "; states lie in the host's memory, which "
                           "updates them (fsdp_config: {offload_optimizer: "
                           "false}: on the device)"
                         : ""));
  if (word->is4Bit) {
    reading.classify(KeyOutcome::Warned,
                     "taken as states of 8 bits; there are none of 4");
    reading.addWarning(value.node,
                       "'" + value.key + ": " + std::string(word->word) +
                           "' is taken as states of 8 bits, which are more "
                           "exact and twice as large: there are none of 4");
  }
}

/// Whose states move away where memory is short: to where there is most.
void fsdp::applyPaging(Reading &reading) {
  Config &config = reading.result.config;
  if (!reading.pagesStates || config.offloadParams ||
      reading.find("fsdp_config.offload_optimizer"))
    return;
  config.offloadOptimizer = true;
  reading.becomeValue("fsdp_config.offload_optimizer", true);
}

//===----------------------------------------------------------------------===//
// Numbers
//===----------------------------------------------------------------------===//

void foreign::readDecay(const Value &value) {
  double decay = kFromZero.read(value);
  Reading &reading = value.reading;
  reading.result.config.optimizer.numbers[OptimizerNumber::weight_decay] =
      decay;
  if (decay == 0)
    return reading.becomeValue("optimizer.weight_decay", 0);
  reading.becomeValue("weight_decay", value.node.Scalar());
  reading.sparesNorms = true;
  reading.addNote(value.node,
                  "'" + value.key + ": " + value.node.Scalar() +
                      "' spares biases and norms, as in transformers; "
                      "optimizer: {weight_decay: …} is of all parameters");
}

/// By the names that transformers knows them by (Trainer,
/// get_decay_parameter_names), in small letters and others.
static std::vector<std::string> listSpared() {
  return {"*[Bb][Ii][Aa][Ss]*",
          "*[Ll]ayer[Nn]orm*",
          "*[Rr][Mm][Ss][Nn]orm*",
          "norm",
          "norm.*",
          "*.norm",
          "*.norm.*",
          "*_norm",
          "*_norm.*"};
}

/// In front of the file's own groups, which go before it.
void fsdp::applySparing(Reading &reading) {
  if (!reading.sparesNorms)
    return;
  std::vector<OptimizerGroup> &groups = reading.result.config.optimizer.groups;
  OptimizerGroup group;
  group.patterns = listSpared();
  group.numbers[OptimizerNumber::weight_decay] = 0;
  group.sparesNorms = true;
  groups.insert(groups.begin(), std::move(group));
}

/// Both at once: keys of this project have them in one list.
static void readBeta(const Value &value, OptimizerNumber which) {
  OptimizerConfig &optimizer = value.reading.result.config.optimizer;
  optimizer.numbers[which] = kBeta.read(value);
  OptimizerNumbers numbers = optimizer.getNumbers();
  YAML::Node both;
  both.push_back(printNumber(numbers[OptimizerNumber::beta1]));
  both.push_back(printNumber(numbers[OptimizerNumber::beta2]));
  value.reading.become("optimizer.betas", both);
}

void foreign::readBeta1(const Value &value) {
  readBeta(value, OptimizerNumber::beta1);
}

void foreign::readBeta2(const Value &value) {
  readBeta(value, OptimizerNumber::beta2);
}

//===----------------------------------------------------------------------===//
// The loss
//===----------------------------------------------------------------------===//

/// transformers': the mean over labels of all devices.
void foreign::readTokenMean(const Value &value) {
  bool isOn = Flag().read(value);
  if (!isOn || value.reading.find("loss_normalization"))
    return;
  value.reading.result.config.weighsLoss = true;
  value.reading.becomeValue("loss_normalization", "tokens");
  value.reading.imply("loss_normalization", value);
}

/// Axolotl's `rl`, LLaMA-Factory's `stage`.
void foreign::readPreference(const Value &value) {
  static constexpr std::string_view losses[] = {"dpo", "ipo",   "kto", "orpo",
                                                "rm",  "simpo", "cpo"};
  std::string word = value.reader().readString(value.node, value.key);
  if (word == "sft" || word == "pt" || word == "none")
    return value.reading.classify(KeyOutcome::Nothing, "asks for nothing");
  if (std::ranges::find(losses, word) == std::end(losses))
    value.reader().fail(
        ErrorId::ConfigNotSupported, value.node,
        "'" + value.key + ": " + word +
            "' cannot be had: what generates and judges between steps is not "
            "compiled; losses of preferences (dpo, ipo, kto, orpo, simpo) "
            "train where the exported module returns them");
  std::string why = "the exported model computes the loss: export a module "
                    "that returns that of " +
                    word +
                    ", with its reference "
                    "model frozen in it, or let fsdp-train do so";
  value.reading.classify(KeyOutcome::Warned, why);
  value.reading.addWarning(value.node, "'" + value.key + ": " + word +
                                           "' is not taken from here: " + why);
}
