//===- WeightFiles.cpp - A model's weights in safetensors files -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/weights/WeightFiles.h"

#include "plan/DType.h"
#include "plan/FirstValues.h"
#include "plan/Shape.h"
#include "runtime/weights/CodedWeights.h"
#include "support/Nearest.h"
#include "support/Nesting.h"
#include "support/ReadOnlyFile.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>

using namespace fsdp;
namespace fs = std::filesystem;

static constexpr const char *kSuffix = ".safetensors";
static constexpr const char *kIndexSuffix = ".index.json";
/// Some hundred bytes a tensor.
static constexpr uint64_t kMaxIndexBytes = 256 << 20;
static constexpr const char *kIndex = "model.safetensors.index.json";

[[noreturn]] static void refuse(const std::string &path,
                                const std::string &what) {
  throw Error(ErrorId::WeightsInvalid, "'" + path + "' " + what);
}

WeightPath fsdp::parseWeightPath(const std::string &text) {
  size_t at = text.find(".=");
  // A folder's name may have the two signs as well.
  if (at == std::string::npos || at == 0 || at + 2 == text.size() ||
      text.find('/') < at)
    return {"", text};
  return {text.substr(0, at + 1), text.substr(at + 2)};
}

WeightFiles::WeightFiles(const std::vector<std::string> &paths) {
  for (const std::string &path : paths) {
    description += (description.empty() ? "'" : ", '") + path + "'";
    addPath(parseWeightPath(path));
  }
}

void WeightFiles::addPath(const WeightPath &given) {
  std::error_code code;
  const std::string &path = given.path;
  prefix = given.prefix;
  if (fs::is_directory(path, code))
    addFolder(path);
  else if (path.ends_with(kIndexSuffix))
    addIndex(path);
  else
    addTensors(addFile(path));
}

void WeightFiles::addFolder(const std::string &path) {
  std::error_code code;
  if (fs::exists(fs::path(path) / kIndex, code))
    return addIndex((fs::path(path) / kIndex).string());
  std::vector<std::string> found;
  bool hasPickle = false;
  for (fs::directory_iterator it(path, code), end; !code && it != end;
       it.increment(code)) {
    std::string name = it->path().filename().string();
    hasPickle |= name.ends_with(".bin") || name.ends_with(".pth");
    if (name.ends_with(kSuffix))
      found.push_back(it->path().string());
  }
  if (found.empty())
    refuse(path, std::string("holds neither a .safetensors file nor ") +
                     kIndex +
                     (hasPickle ? "; write its weights with "
                                  "safetensors.torch.save_file or "
                                  "save_pretrained(safe_serialization=True)"
                                : ""));
  // The order of a folder is any; that of names is not.
  std::ranges::sort(found);
  for (const std::string &file : found)
    addTensors(addFile(file));
}

size_t WeightFiles::addFile(const std::string &path) {
  for (size_t i = 0; i < opened.size(); ++i)
    if (opened[i]->path() == path)
      return i;
  opened.push_back(
      std::make_unique<SafetensorsFile>(path, ErrorId::WeightsInvalid));
  return opened.size() - 1;
}

void WeightFiles::addTensors(size_t file) {
  for (const auto &[name, stored] : opened[file]->tensors())
    all.try_emplace(prefix + name, Tensor{file, &stored});
}

void WeightFiles::addIndex(const std::string &path) {
  std::string text =
      readWholeFile(path, "the index of weights", kMaxIndexBytes);
  checkJsonDepth(text, "the index of weights '" + path + "'");
  nlohmann::json json = nlohmann::json::parse(text, /*callback=*/nullptr,
                                              /*allow_exceptions=*/false);
  auto map = json.is_object() ? json.find("weight_map") : json.end();
  if (map == json.end() || !map->is_object())
    refuse(path, "is no index of weights: expected a JSON object with "
                 "'weight_map', from names of tensors to names of files");
  fs::path folder = fs::path(path).parent_path();
  for (const auto &[name, value] : map->items()) {
    if (!value.is_string())
      refuse(path, "names no file for tensor '" + name + "'");
    auto part = value.get<std::string>();
    if (part.empty() || fs::path(part).filename() != part || part == "." ||
        part == "..")
      refuse(path, "names '" + part + "' for tensor '" + name +
                       "'; expected a file of its own folder");
    size_t file = addFile((folder / part).string());
    auto tensor = opened[file]->tensors().find(name);
    if (tensor == opened[file]->tensors().end())
      refuse(path, "says that '" + part + "' has the tensor '" + name +
                       "', which it does not; download both again");
    all.try_emplace(prefix + name, Tensor{file, &tensor->second});
  }
}

const WeightFiles::Tensor *WeightFiles::find(const std::string &name) const {
  auto it = all.find(name);
  return it == all.end() ? nullptr : &it->second;
}

std::optional<CodedWeight>
WeightFiles::findCoded(const std::string &name) const {
  return CodedWeight::find(
      name, opened[find(name)->file]->path(),
      [this](const std::string &other) -> std::optional<Tensor> {
        const Tensor *tensor = find(other);
        return tensor ? std::optional(*tensor) : std::nullopt;
      });
}

std::string WeightFiles::suggest(std::string_view name) const {
  std::vector<std::string_view> names;
  for (const auto &[known, tensor] : all)
    names.push_back(known);
  // A prefix more or less is the usual difference, and no misspelling.
  for (std::string_view known : names)
    if (known.ends_with("." + std::string(name)) ||
        name.ends_with("." + std::string(known)))
      return "; the nearest name there is '" + std::string(known) + "'";
  std::string_view nearest = findNearest(name, names);
  if (nearest.empty())
    return "";
  return "; the nearest name there is '" + std::string(nearest) + "'";
}

void fsdp::checkWeight(const std::string &state,
                       const std::vector<int64_t> &shape, plan::DType dtype,
                       const std::string &name, const StoredTensor &stored,
                       const std::string &file) {
  std::string where = "tensor '" + name + "' of '" + file + "' has ";
  if (stored.shape != shape)
    throw Error(ErrorId::WeightsMismatch,
                where + "shape " + toString(stored.shape) + "; '" + state +
                    "' of the model has " + toString(shape));
  if (!isConvertible(stored.dtype, dtype))
    throw Error(ErrorId::WeightsMismatch,
                where + "element type " + std::string(dtypeName(stored.dtype)) +
                    ", which does not convert to " +
                    std::string(dtypeName(dtype)) + ", that of '" + state +
                    "' in the model; convert the file");
}
