//===- DataOptions.cpp - What a run reads ---------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/data/DataOptions.h"

#include "plan/TokenFormats.h"
#include "runtime/data/RaggedSamples.h"
#include "runtime/data/Samples.h"
#include "runtime/data/Tokens.h"
#include "support/Error.h"
#include "support/Nearest.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <span>

using namespace fsdp;

namespace {

/// One KEY=VALUE of --data-options.
class OptionReader {
public:
  OptionReader(RunData &data, std::string_view field) : data(data) {
    size_t equals = std::min(field.find('='), field.size());
    key = field.substr(0, equals);
    value = field.substr(std::min(equals + 1, field.size()));
  }

  void read() {
#define FSDP_DATA_KEY(name, least, ...)                                        \
  if (key == #name)                                                            \
    return read(data.name, least);
#include "runtime/data/DataKeys.def"
    // Of a run alone.
    if (key == "ignore")
      return read(data.ignored);
    if (key == "repeat")
      return read(data.repeated);
    if (key == "exported")
      return read(data.exported);
    refuseKey();
  }

private:
  [[noreturn]] void refuse(const std::string &expected) const {
    throw Error(ErrorId::BadUsage, "--data-options: '" + std::string(key) +
                                       "': expected " + expected + ", found '" +
                                       std::string(value) + "'");
  }

  [[noreturn]] void refuseKey() const {
    static constexpr std::string_view kKeys[] = {
#define FSDP_DATA_KEY(name, ...) #name,
#include "runtime/data/DataKeys.def"
        "ignore", "repeat", "exported"};
    std::string list;
    for (std::string_view each : kKeys)
      list += (list.empty() ? "" : ", ") + std::string(each);
    std::string_view nearest = findNearest(key, kKeys);
    throw Error(ErrorId::BadUsage,
                "--data-options: expected KEY=VALUE with a key out of " + list +
                    ", found '" + std::string(key) + "'" +
                    (nearest.empty()
                         ? ""
                         : "; did you mean '" + std::string(nearest) + "'?"));
  }

  void read(bool &to, uint64_t) const {
    if (value != "true" && value != "false")
      refuse("true or false");
    to = value == "true";
  }

  void read(uint64_t &to, uint64_t least) const {
    const char *end = value.data() + value.size();
    uint64_t number = 0;
    auto [rest, failure] = std::from_chars(value.data(), end, number);
    if (failure != std::errc() || rest != end || number < least)
      refuse("a whole number from " + std::to_string(least));
    to = number;
  }

  void read(plan::TokenFormat &to, uint64_t) const {
    to = getTokenFormat(readChoice(kTokenFormats));
  }

  void read(plan::DType &to, uint64_t) const {
    to = getTokenType(readChoice(kTokenTypes));
  }

  std::string_view readChoice(std::span<const std::string_view> choices) const {
    std::string list;
    for (std::string_view choice : choices) {
      if (choice == value)
        return choice;
      list += (list.empty() ? "" : ", ") + std::string(choice);
    }
    refuse("one of " + list);
  }

  void read(std::vector<std::string> &to, uint64_t = 0) const {
    to = readNames();
  }

  std::vector<std::string> readNames() const {
    std::vector<std::string> names;
    for (size_t begin = 0; begin <= value.size();) {
      size_t end = std::min(value.find('+', begin), value.size());
      if (begin == end)
        refuse("names with + between them");
      names.emplace_back(value.substr(begin, end - begin));
      begin = end + 1;
    }
    return names;
  }

  void read(std::string &to, uint64_t) const {
    std::vector<std::string> names = readNames();
    if (names.size() != 1)
      refuse("one name");
    to = names.front();
  }

  /// In place of the config's for these inputs.
  void read(std::vector<std::unique_ptr<plan::PaddingT>> &to, uint64_t) const {
    for (const std::string &each : readNames()) {
      size_t colon = std::min(each.rfind(':'), each.size());
      double number = 0;
      const char *begin = each.data() + std::min(colon + 1, each.size());
      const char *end = each.data() + each.size();
      auto [rest, failure] = std::from_chars(begin, end, number);
      if (colon == 0 || begin == end || failure != std::errc() || rest != end ||
          !std::isfinite(number))
        refuse("INPUT:NUMBER, with + between several");
      std::string name = each.substr(0, colon);
      std::erase_if(to,
                    [&](const auto &known) { return known->input == name; });
      to.push_back(std::make_unique<plan::PaddingT>());
      to.back()->input = name;
      to.back()->value = number;
    }
  }

  RunData &data;
  std::string_view key, value;
};

/// The compiler checked the config's.
void checkNames(const plan::PlanT &plan, const RunData &data) {
  std::vector<std::string_view> known;
  for (const auto &input : plan.inputs)
    known.push_back(input->name);
  std::vector<std::string> counted, padded;
  for (const std::string *name : {&data.labels, &data.label_count})
    if (!name->empty())
      counted.push_back(*name);
  for (const auto &each : data.pad)
    padded.push_back(each->input);
  std::vector<const std::vector<std::string> *> all = {
      &data.inputs,   &data.targets, &data.repeated,
      &data.exported, &counted,      &padded};
  for (const auto *names : all)
    for (const std::string &name : *names)
      if (std::ranges::find(known, name) == known.end()) {
        std::string_view nearest = findNearest(name, known);
        throw Error(ErrorId::BadUsage,
                    "--data-options: the program has no input '" + name + "'" +
                        (nearest.empty() ? ""
                                         : "; did you mean '" +
                                               std::string(nearest) + "'?"));
      }
  if (data.inputs.empty() && !data.targets.empty())
    throw Error(ErrorId::BadUsage,
                "--data-options: 'targets' are the tokens behind those of "
                "'inputs'; give both");
  for (const std::string &name : data.ignored)
    if (std::ranges::find(known, name) != known.end())
      throw Error(ErrorId::BadUsage,
                  "--data-options: 'ignore' names tensors that no input takes, "
                  "and '" +
                      name + "' is an input; leave it out, or say exported=" +
                      name + " to take its exported sample");
}

std::vector<std::string> locate(const std::vector<std::string> &files,
                                const std::string &folder,
                                const std::string &path) {
  if (!path.empty())
    return {path};
  std::vector<std::string> located;
  for (const std::string &file : files)
    located.push_back((std::filesystem::path(folder) / file).string());
  return located;
}

RunData sampleData() {
  RunData data;
  data.isSample = true;
  return data;
}

} // namespace

RunData fsdp::chooseData(const plan::PlanT &plan, const std::string &folder,
                         const std::string &path, const std::string &options) {
  RunData data(plan.data ? *plan.data : plan::DataT());
  if (path == kSampleData) {
    if (!options.empty())
      throw Error(ErrorId::BadUsage,
                  "--data-options says how data is read, and --data=sample "
                  "reads none; leave one of them out, or write --data=./sample "
                  "for a file of that name");
    return sampleData();
  }
  data.files = locate(data.files, folder, path);
  std::string_view rest = options;
  while (!rest.empty()) {
    size_t comma = std::min(rest.find(','), rest.size());
    OptionReader(data, rest.substr(0, comma)).read();
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  checkNames(plan, data);
  bool isCountNew = options.find("label_count=") != std::string::npos &&
                    (!plan.data || plan.data->label_count.empty());
  if (isCountNew && options.find("shifts_labels=") == std::string::npos)
    throw Error(ErrorId::BadUsage,
                "--data-options: 'label_count' counts labels, and nothing says "
                "whether the model leaves out the first one of each row; say "
                "shifts_labels=true (transformers' causal language models) or "
                "shifts_labels=false");
  if (data.length_pool % data.length_group != 0)
    throw Error(
        ErrorId::BadUsage,
        "--data-options: 'length_pool' is sorted and cut into groups of "
        "'length_group' rows; expected a multiple of " +
            std::to_string(data.length_group) + ", found " +
            std::to_string(data.length_pool));
  return data;
}

RunData fsdp::chooseValidationData(const plan::PlanT &plan,
                                   const std::string &folder,
                                   const std::string &path,
                                   const RunData &training) {
  if (path == kSampleData)
    return sampleData();
  RunData data;
  if (plan.validation)
    data.files = plan.validation->files;
  data.files = locate(data.files, folder, path);
  data.format = training.format;
  data.dtype = training.dtype;
  data.inputs = training.inputs;
  data.targets = training.targets;
  for (const auto &each : training.pad)
    data.pad.push_back(std::make_unique<plan::PaddingT>(*each));
  data.labels = training.labels;
  data.label_count = training.label_count;
  data.shifts_labels = training.shifts_labels;
  data.ignored = training.ignored;
  data.repeated = training.repeated;
  data.exported = training.exported;
  // Batches that are not full would count some rows twice.
  data.epochs = 1;
  data.drop_last = true;
  return data;
}

static std::unique_ptr<RowSource> openSamples(const plan::DataT &data) {
  const std::string &path = data.files.front();
  if (RaggedSamples::isOne(path))
    return std::make_unique<RaggedSamples>(path, data);
  return std::make_unique<Samples>(path);
}

std::unique_ptr<RowSource> fsdp::openData(const plan::DataT &data) {
  if (data.files.empty())
    return nullptr;
  std::unique_ptr<RowSource> source;
  if (data.inputs.empty() || isSamplesFile(data.files.front()))
    source = openSamples(data);
  else
    source = std::make_unique<Tokens>(data);
  if (data.length_pool != 0 && !source->lengths())
    throw Error(ErrorId::DataShape,
                "'length_pool' sorts rows by their length, and rows of " +
                    source->describe() +
                    " are all as long; leave it out, or write rows of their "
                    "own lengths with '" +
                    std::string(kRowOffsets) + "'");
  return source;
}
