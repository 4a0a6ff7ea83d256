//===- DataFields.cpp - What the run reads, in the config -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/TokenFormats.h"
#include "tools/fsdp-opt/config/Tables.h"

#include <algorithm>
#include <filesystem>

using namespace fsdp;

/// A path in the config is meant from where the config lies; from here it is a
/// relative one, too, whatever way led to the config.
static std::string locate(const Value &value, const YAML::Node &node) {
  std::string path = value.reader().readString(node, value.key);
  std::filesystem::path written(path);
  if (written.is_absolute())
    return path;
  std::filesystem::path folder =
      std::filesystem::path(value.reader().getFile()).parent_path();
  return std::filesystem::absolute(folder / written)
      .lexically_normal()
      .lexically_proximate(std::filesystem::current_path())
      .string();
}

/// A path, or a list of them.
static std::vector<std::string> readPaths(const Value &value) {
  if (!value.node.IsSequence())
    return {locate(value, value.node)};
  std::vector<std::string> paths;
  for (const auto &item : value.node)
    paths.push_back(locate(value, item));
  if (paths.empty())
    value.failType("a path or a list of paths");
  return paths;
}

//===----------------------------------------------------------------------===//
// data
//===----------------------------------------------------------------------===//

static void readTokens(const Value &value, plan::DataT &data) {
  std::vector<std::string> paths = readPaths(value);
  if (std::ranges::any_of(paths, isSamplesFile))
    value.fail("a safetensors file holds samples; name it with 'samples'");
  data.files = std::move(paths);
}

static void readSamples(const Value &value, plan::DataT &data) {
  std::string path = value.reader().readString(value.node, value.key);
  if (!isSamplesFile(path))
    value.fail("expected a .safetensors file, found '" + path +
               "'; name token files with 'tokens'");
  data.files = {locate(value, value.node)};
}

/// A map from inputs to numbers.
static void readPadding(const Value &value, plan::DataT &data) {
  if (!value.node.IsMap())
    value.failType("a map of inputs and numbers");
  for (const auto &entry : value.node) {
    auto padding = std::make_unique<plan::PaddingT>();
    padding->input = value.reader().readString(entry.first, value.key);
    padding->value = value.reader().readDouble(entry.second, value.key);
    data.pad.push_back(std::move(padding));
  }
}

static void readName(const Value &value, std::string &to) {
  to = value.reader().readString(value.node, value.key);
}

static const Table<plan::DataT> &getData() {
  using plan::DataT;
  static const Table<DataT> table = {
      "data",
      {
          {"tokens", readTokens, "path, or list of paths", "",
           "token files, or shell patterns of some, relative to the config "
           "file"},
          {"samples", readSamples, "path", "",
           "a safetensors file with a tensor for each input"},
          {"format",
           &DataT::format,
           "how token files are laid out",
           {.absent = "as each file begins"}},
          {"dtype", &DataT::dtype, "of token files that do not say"},
          {"inputs", &DataT::inputs,
           "inputs of the model that take tokens; needed with `tokens`"},
          {"targets", &DataT::targets, "inputs that take the tokens one later"},
          {"shuffle", &DataT::shuffle, "each epoch in a new random order"},
          {"seed", &DataT::seed, from(0), "of these orders"},
          {"epochs",
           &DataT::epochs,
           between(1, kMostSteps),
           "how often the run reads each row",
           {.absent = "no end"}},
          {"drop_last", &DataT::drop_last,
           "whether rows at the end of the last epoch that do not fill a step "
           "are left out, rather than filled up"},
          {"pad", readPadding, "map of inputs and numbers", "",
           "what inputs have behind the tokens of rows that are shorter than "
           "the program's: `labels` -100 and `attention_mask` 0 without being "
           "said. See [Data.md](Data.md#rows-of-different-lengths)"},
          {"length_pool",
           &DataT::length_pool,
           from(0),
           "so many rows at once are sorted by their length, for steps of like "
           "length; a multiple of `length_group`",
           {.absent = "rows are not sorted"}},
          {"length_group", &DataT::length_group, between(1, kMostSteps),
           "so many rows of a sorted pool stay together where groups are "
           "shuffled: several times the rows of a step"},
          {"labels",
           [](const Value &value, DataT &data) {
             readName(value, data.labels);
           },
           "name", "`labels`", "the input of labels, of which -100 is ignored"},
          {"label_count",
           [](const Value &value, DataT &data) {
             readName(value, data.label_count);
           },
           "name", "",
           "an input without dims that takes how many labels of a step are not "
           "ignored, a micro-batch and rank on average: `num_items_in_batch` "
           "of "
           "transformers' models. Needs `shifts_labels`"},
          {"shifts_labels",
           &DataT::shifts_labels,
           "whether the model's loss leaves out the first label of each row, "
           "as "
           "transformers' causal language models do",
           {.absent = "needed with `label_count`"}},
      }};
  return table;
}

//===----------------------------------------------------------------------===//
// eval
//===----------------------------------------------------------------------===//

static void readEvalData(const Value &value, plan::ValidationT &validation) {
  std::vector<std::string> paths = readPaths(value);
  if (paths.size() > 1 && std::ranges::any_of(paths, isSamplesFile))
    value.fail("expected token files, or one safetensors file");
  validation.files = std::move(paths);
}

static const Table<plan::ValidationT> &getEval() {
  using plan::ValidationT;
  static const Table<ValidationT> table = {
      "eval",
      {
          {"data", readEvalData, "path, or list of paths", "",
           "a safetensors file, or token files, which are read as `data` says; "
           "`eval: {}` without is for batches that a program gives, and for "
           "`fsdp-run --eval-data`"},
          {"every",
           &ValidationT::every,
           between(1, kMostSteps),
           "steps from one validation to the next",
           {.absent = "at the end alone"}},
          {"batches",
           &ValidationT::batches,
           between(1, kMostSteps),
           "batches of all ranks that are read at most",
           {.absent = "all"}},
      }};
  return table;
}

std::vector<Field<Config>> fsdp::getDataFields() {
  return {
      section<Config>(
          "data",
          [](Config &config) -> auto & { return open(config.data).data; },
          getData(), "what the inputs read",
          {.absent = "what `fsdp-run --data` says"}),
      section<Config>("eval", &Config::validation, getEval(),
                      "adds a program that computes the loss over other data, "
                      "and when to run it",
                      {.absent = "none"}),
  };
}
