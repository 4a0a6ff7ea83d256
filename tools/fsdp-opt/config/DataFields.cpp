//===- DataFields.cpp - What the run reads, in the config -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/TokenFormats.h"
#include "tools/fsdp-opt/config/Tables.h"

#include <algorithm>
#include <filesystem>
#include <type_traits>

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

/// The row of a key that --data-options has, too: the member's type is its
/// format, but for those that have none.
template <auto member>
static Field<plan::DataT> makeField(std::string_view key, uint64_t least,
                                    std::string_view absent,
                                    std::string_view text) {
  using plan::DataT;
  using T = std::remove_reference_t<decltype(std::declval<DataT &>().*member)>;
  if constexpr (std::is_same_v<T, uint64_t>) {
    if (least == 0)
      return {key, member, from(0), text, {.absent = absent}};
    return {key, member, between(1, kMostSteps), text, {.absent = absent}};
  } else if constexpr (std::is_same_v<T, std::string>) {
    auto read = [](const Value &value, DataT &data) {
      data.*member = value.reader().readString(value.node, value.key);
    };
    return {key, read, "name", absent, text};
  } else if constexpr (std::is_same_v<T, decltype(DataT::pad)>) {
    return {key, readPadding, "map of inputs and numbers", "", text};
  } else {
    return {key, member, text, {.absent = absent}};
  }
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
#define FSDP_DATA_KEY(name, least, absent, text)                               \
  makeField<&DataT::name>(#name, least, absent, text),
#include "runtime/data/DataKeys.def"
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
          {"weights", &ValidationT::averaged,
           Choice<bool>{{{"trained", false}, {"ema", true}}},
           "of which weights: those that are trained, or with their "
           "[averages](#averages-of-the-weights) in their place"},
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
