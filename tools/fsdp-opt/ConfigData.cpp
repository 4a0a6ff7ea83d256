//===- ConfigData.cpp - What the run reads, in the config ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/plan/TokenFormats.h"
#include "tools/fsdp-opt/ConfigParser.h"

#include <algorithm>
#include <filesystem>
#include <limits>

using namespace fsdp;

/// A path in the config is meant from where the config lies; from here it is a
/// relative one, too, whatever way led to the config.
std::string ConfigParser::locate(const std::string &path) const {
  std::filesystem::path written(path);
  if (written.is_absolute())
    return path;
  std::filesystem::path folder =
      std::filesystem::path(read.getFile()).parent_path();
  return std::filesystem::absolute(folder / written)
      .lexically_normal()
      .lexically_proximate(std::filesystem::current_path())
      .string();
}

std::vector<std::string> ConfigParser::readPaths(const Node &node,
                                                 std::string_view key) {
  if (!node.IsSequence())
    return {locate(read.readString(node, key))};
  std::vector<std::string> paths;
  for (const Node &item : node)
    paths.push_back(locate(read.readString(item, key)));
  if (paths.empty())
    read.failType(node, key, "a path or a list of paths");
  return paths;
}

//===----------------------------------------------------------------------===//
// data
//===----------------------------------------------------------------------===//

void ConfigParser::parseData(const Node &node) {
  DataConfig &config = result.config.data.emplace();
  config.place = read.describePlace(node);
  parseSection("data", node);
  plan::DataT &data = config.data;
  bool hasTokens = given.contains("tokens");
  if (hasTokens && given.contains("samples"))
    read.fail(ErrorId::ConfigBadValue, node,
              "'data' has both 'tokens' and 'samples'; keep one");
  if (hasTokens && data.inputs.empty())
    read.fail(ErrorId::ConfigMissingKey, node,
              "'data' has 'tokens' and no 'inputs': the names of the model's "
              "inputs that take them");
  for (const char *key : {"format", "dtype", "inputs", "targets"})
    if (given.contains("samples") && given.contains(key))
      read.fail(ErrorId::ConfigBadValue, node[key],
                "'" + std::string(key) +
                    "' says how 'tokens' are read, and 'data' has 'samples'; "
                    "take it out");
  if (!data.targets.empty() && data.inputs.empty())
    read.fail(ErrorId::ConfigMissingKey, node["targets"],
              "'targets' are the tokens behind those of 'inputs', which is "
              "missing");
  for (const std::string &target : data.targets)
    if (std::ranges::count(data.inputs, target))
      read.fail(ErrorId::ConfigBadValue, node["targets"],
                "'" + target + "' is among 'inputs' and 'targets'; keep one");
  if (given.contains("drop_last") && !given.contains("epochs"))
    addNote(node["drop_last"],
            "'drop_last' has no effect without 'epochs': epochs follow one "
            "another without a gap");
}

void ConfigParser::parseTokens(const Node &node) {
  std::vector<std::string> paths = readPaths(node, "tokens");
  if (std::ranges::any_of(paths, isSamplesFile))
    read.fail(ErrorId::ConfigBadValue, node,
              "'tokens': a safetensors file holds samples; name it with "
              "'samples'");
  result.config.data->data.files = std::move(paths);
}

void ConfigParser::parseSamples(const Node &node) {
  std::string path = read.readString(node, "samples");
  if (!isSamplesFile(path))
    read.fail(ErrorId::ConfigBadValue, node,
              "'samples': expected a .safetensors file, found '" + path +
                  "'; name token files with 'tokens'");
  result.config.data->data.files = {locate(path)};
}

void ConfigParser::parseTokenFormat(const Node &node) {
  result.config.data->data.format =
      getTokenFormat(read.readChoice(node, "format", kTokenFormats));
}

void ConfigParser::parseTokenDtype(const Node &node) {
  result.config.data->data.dtype =
      getTokenType(read.readChoice(node, "dtype", kTokenTypes));
}

void ConfigParser::parseDataInputs(const Node &node) {
  result.config.data->data.inputs = read.readStrings(node, "inputs");
}

void ConfigParser::parseDataTargets(const Node &node) {
  result.config.data->data.targets = read.readStrings(node, "targets");
}

void ConfigParser::parseShuffle(const Node &node) {
  result.config.data->data.shuffle = read.readBool(node, "shuffle");
}

void ConfigParser::parseDataSeed(const Node &node) {
  result.config.data->data.seed = static_cast<uint64_t>(
      readCount(node, "seed", std::numeric_limits<int64_t>::max()));
}

void ConfigParser::parseEpochs(const Node &node) {
  result.config.data->data.epochs = readPositive(node, "epochs");
}

void ConfigParser::parseDropLast(const Node &node) {
  result.config.data->data.drop_last = read.readBool(node, "drop_last");
}

//===----------------------------------------------------------------------===//
// eval
//===----------------------------------------------------------------------===//

void ConfigParser::parseEval(const Node &node) {
  result.config.validation.emplace();
  parseSection("eval", node);
  if (result.config.validation->files.empty())
    read.fail(ErrorId::ConfigMissingKey, node,
              "'eval' has no 'data': the files to compute the loss over");
}

void ConfigParser::parseEvalData(const Node &node) {
  std::vector<std::string> paths = readPaths(node, "data");
  if (paths.size() > 1 && std::ranges::any_of(paths, isSamplesFile))
    read.fail(ErrorId::ConfigBadValue, node,
              "'data': expected token files, or one safetensors file");
  result.config.validation->files = std::move(paths);
}

void ConfigParser::parseEvalEvery(const Node &node) {
  result.config.validation->every = readPositive(node, "every");
}

void ConfigParser::parseEvalBatches(const Node &node) {
  result.config.validation->batches = readPositive(node, "batches");
}

/// Keys may stand in any order.
void ConfigParser::checkEval(const Node &root) {
  if (!result.config.validation ||
      isSamplesFile(result.config.validation->files.front()) ||
      (result.config.data && !result.config.data->data.inputs.empty()))
    return;
  read.fail(ErrorId::ConfigMissingKey, root["eval"],
            "'eval' names token files, and no key 'inputs' of 'data' says "
            "which inputs take them");
}
