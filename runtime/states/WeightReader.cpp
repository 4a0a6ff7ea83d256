//===- WeightReader.cpp - First values out of weights files ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/states/WeightReader.h"

#include "plan/DType.h"
#include "plan/FirstValues.h"
#include "plan/Quantized.h"
#include "runtime/device/DTypes.h"
#include "runtime/log/Log.h"
#include "runtime/weights/MissingValues.h"
#include "runtime/weights/WeightFiles.h"
#include "support/AdapterNames.h"
#include "support/Error.h"

#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

using namespace fsdp;

/// What is read at once where types differ.
static constexpr uint64_t kConvertedAtOnce = 1 << 20;

/// What is trained beside adapters that the compiler put in, and these, begin
/// with what a folder of PEFT's has of them.
static bool mayBegin(const plan::PlanT &plan, const plan::StateT &state) {
  bool isTrained =
      state.role == plan::Role::parameter ||
      (state.role == plan::Role::frozen && isOfAdapter(state.name));
  return plan.adapter_settings && isTrained && !state.weight &&
         state.layout != plan::Layout::flat;
}

bool fsdp::needsWeights(
    const plan::PlanT &plan,
    const std::function<bool(const plan::StateT &)> &isWanted, bool areGiven) {
  return std::ranges::any_of(plan.states, [&](const auto &state) {
    return (state->weight || (areGiven && mayBegin(plan, *state))) &&
           isWanted(*state);
  });
}

bool fsdp::takesWeights(const plan::PlanT &plan) {
  return needsWeights(
      plan, [](const plan::StateT &) { return true; }, /*areGiven=*/true);
}

WeightReader::WeightReader(const plan::PlanT &plan, const std::string &folder,
                           const std::vector<std::string> &paths,
                           bool allowMissing) {
  if (paths.empty())
    openPlanned(plan, folder, allowMissing);
  else
    openGiven(plan, paths);
}

void WeightReader::openPlanned(const plan::PlanT &plan,
                               const std::string &folder, bool allowMissing) {
  std::vector<MissingValue> missing;
  for (const auto &state : plan.states)
    if (state->weight && state->weight->file < 0)
      missing.push_back({state->name, modelShape(plan, *state),
                         state->role == plan::Role::parameter ||
                             state->role == plan::Role::frozen});
  if (!missing.empty() && !allowMissing) {
    std::string rules = suggestRules(missing);
    throw Error(ErrorId::NoFirstValue,
                listMissing(missing) +
                    " of the model have no first value: the model file holds "
                    "no data of them; name their weights with "
                    "--weights=PATH" +
                    (rules.empty() ? ""
                                   : ", or to train from scratch compile with "
                                     "rules such as\n" +
                                         rules));
  }
  for (const auto &file : plan.weights) {
    std::string path = (std::filesystem::path(folder) / file->path).string();
    auto opened = std::make_unique<ReadOnlyFile>(
        path, "the weights file",
        "the artifact reads first values from it; name it with "
        "--weights=PATH if it was moved");
    std::string found;
    if (opened->bytes() == file->bytes)
      found = SafetensorsFile(path, ErrorId::WeightsInvalid).headerHash();
    if (found != file->header)
      throw Error(ErrorId::WeightsChanged,
                  "'" + path +
                      "' is not the weights file that was compiled with: "
                      "expected " +
                      std::to_string(file->bytes) +
                      " bytes with a header of hash " + file->header +
                      ", found " + std::to_string(opened->bytes()) + " bytes" +
                      (found.empty() ? "" : " with one of hash " + found) +
                      "; compile again, or name the weights with "
                      "--weights=PATH");
    files.push_back(std::move(opened));
  }
  for (const auto &state : plan.states)
    if (state->weight && state->weight->file >= 0)
      sources[state.get()] = {files[state->weight->file].get(),
                              state->weight->offset,
                              state->weight->dtype,
                              {}};
  findCodes(plan);
}

void WeightReader::findCodes(const plan::PlanT &plan) {
  auto isCoded = [](const plan::StateT &state) {
    return state.weight && state.weight->file >= 0 &&
           !isConvertible(state.weight->dtype, modelDType(state));
  };
  if (std::ranges::none_of(plan.states,
                           [&](const auto &state) { return isCoded(*state); }))
    return;
  std::vector<std::unique_ptr<SafetensorsFile>> opened;
  std::map<std::string, WeightFiles::Tensor> tensors;
  std::map<std::pair<size_t, uint64_t>, std::string> names; // by place
  for (size_t i = 0; i < files.size(); ++i) {
    opened.push_back(std::make_unique<SafetensorsFile>(
        files[i]->path(), ErrorId::WeightsInvalid));
    for (const auto &[name, stored] : opened.back()->tensors()) {
      tensors.try_emplace(name, WeightFiles::Tensor{i, &stored});
      names[{i, stored.offset}] = name;
    }
  }
  auto find =
      [&](const std::string &name) -> std::optional<WeightFiles::Tensor> {
    auto it = tensors.find(name);
    return it == tensors.end() ? std::nullopt : std::optional(it->second);
  };
  for (const auto &state : plan.states) {
    if (!isCoded(*state))
      continue;
    auto number = static_cast<size_t>(state->weight->file);
    const std::string &path = files[number]->path();
    auto name = names.find({number, state->weight->offset});
    std::optional<CodedWeight> coded;
    if (name != names.end())
      coded = CodedWeight::find(name->second, path, find);
    if (!coded)
      throw Error(ErrorId::WeightsInvalid,
                  "'" + path + "' has codes of '" + state->name +
                      "' and nothing that says what they stand for; name "
                      "whole weights with --weights=PATH");
    coded->checkShape(state->name, modelShape(plan, *state), path);
    sources[state.get()].coded = std::move(coded);
  }
}

void WeightReader::openGiven(const plan::PlanT &plan,
                             const std::vector<std::string> &paths) {
  WeightFiles weights(paths);
  for (const auto &file : weights.files())
    files.push_back(
        std::make_unique<ReadOnlyFile>(file->path(), "the weights file"));
  std::vector<MissingValue> missing;
  std::string suggestion;
  for (const auto &state : plan.states) {
    if (!state->weight)
      continue;
    const WeightFiles::Tensor *tensor = nullptr;
    for (const std::string &name : state->weight->names) {
      tensor = weights.find(name);
      if (!tensor)
        continue;
      take(plan, *state, weights, *tensor, name);
      break;
    }
    if (tensor)
      continue;
    if (missing.empty())
      suggestion = "'" + state->weight->names.front() + "' is not among " +
                   std::to_string(weights.tensors().size()) + " tensors" +
                   weights.suggest(state->weight->names.front());
    missing.push_back({state->name, modelShape(plan, *state)});
  }
  findAdapters(plan, weights);
  if (!missing.empty())
    throw Error(ErrorId::WeightsMissing,
                listMissing(missing) + " of the model are not in " +
                    weights.describe() + ": " + suggestion +
                    "; names are mapped by weights: {rename: …} of the config "
                    "that the artifact was compiled with");
}

void WeightReader::take(const plan::PlanT &plan, const plan::StateT &state,
                        const WeightFiles &weights,
                        const WeightFiles::Tensor &tensor,
                        const std::string &name) {
  const auto &file = files[tensor.file];
  std::vector<int64_t> shape = modelShape(plan, state);
  std::optional<CodedWeight> coded = weights.findCoded(name);
  if (coded && isQuantizable(modelDType(state)))
    coded->checkShape(state.name, shape, file->path());
  else
    checkWeight(state.name, shape, modelDType(state), name, *tensor.stored,
                file->path());
  sources[&state] = {file.get(), tensor.stored->offset, tensor.stored->dtype,
                     std::move(coded)};
}

/// By the names of PEFT's folders; adapters by their own as well.
void WeightReader::findAdapters(const plan::PlanT &plan,
                                const WeightFiles &weights) {
  for (const auto &state : plan.states) {
    if (!mayBegin(plan, *state))
      continue;
    for (const std::string &name :
         {std::string(kPeftPrefix) + state->name, state->name}) {
      const WeightFiles::Tensor *tensor = weights.find(name);
      if (!tensor || (name == state->name && !isOfAdapter(name)))
        continue;
      if (state->initializer &&
          state->initializer->kind == plan::InitKind::pissa)
        throw Error(ErrorId::WeightsMismatch,
                    "'" + files[tensor->file]->path() + "' has '" + name +
                        "', which begins here with numbers that its layer then "
                        "lacks (adapter: {init: pissa}): compile without init, "
                        "and with the adapter's rank, to go on from it");
      take(plan, *state, weights, *tensor, name);
      break;
    }
  }
}

bool WeightReader::hasRows(const plan::StateT &state,
                           const BlockForm &form) const {
  auto source = sources.find(&state);
  return source != sources.end() && source->second.coded &&
         source->second.coded->isOf(form);
}

void WeightReader::readRows(const plan::StateT &state, int64_t first,
                            int64_t count, uint8_t *to) const {
  sources.at(&state).coded->readRows(files, first, count, to);
}

void WeightReader::logCodes() const {
  std::map<std::pair<LogLevel, std::string>, size_t> counts;
  for (const auto &[state, source] : sources) {
    if (!source.coded)
      continue;
    LogLevel level = LogLevel::info;
    std::string text = source.coded->describe() + " of bitsandbytes ";
    if (!state->quantized) {
      text += "are read as the numbers that they stand for";
    } else if (BlockForm form = toBlockForm(*state->quantized);
               source.coded->isOf(form)) {
      text += "are taken as they are";
    } else {
      text += "are coded again, as " + getName(form) +
              ", which rounds a second time; compile with their quantize to "
              "keep them";
      level = LogLevel::warning;
    }
    ++counts[{level, text}];
  }
  for (const auto &[note, count] : counts)
    log(note.first, std::to_string(count) + " matrices in " + note.second);
}

void WeightReader::readElements(const plan::StateT &state, uint64_t first,
                                uint64_t elements, void *to) const {
  plan::DType own = modelDType(state);
  uint64_t element = dtypeBytes(own);
  auto source = sources.find(&state);
  if (source == sources.end()) {
    std::memset(to, 0, elements * element);
    return;
  }
  const auto &[file, offset, dtype, coded] = source->second;
  if (coded) {
    std::vector<float> wide(std::min(kConvertedAtOnce, elements));
    for (uint64_t done = 0; done < elements;) {
      uint64_t block = std::min(kConvertedAtOnce, elements - done);
      coded->readNumbers(files, first + done, block, wide.data());
      auto size = static_cast<int64_t>(block);
      at::from_blob(static_cast<char *>(to) + done * element, {size},
                    toScalarType(own))
          .copy_(at::from_blob(wide.data(), {size}, at::kFloat));
      done += block;
    }
    return;
  }
  uint64_t stored = dtypeBytes(dtype);
  uint64_t begin = offset + first * stored;
  if (dtype == own)
    return file->read(begin, elements * stored, to);
  auto buffer =
      std::make_unique<char[]>(std::min(kConvertedAtOnce, elements) * stored);
  for (uint64_t done = 0; done < elements;) {
    uint64_t block = std::min(kConvertedAtOnce, elements - done);
    file->read(begin + done * stored, block * stored, buffer.get());
    auto size = static_cast<int64_t>(block);
    at::from_blob(static_cast<char *>(to) + done * element, {size},
                  toScalarType(own))
        .copy_(at::from_blob(buffer.get(), {size}, toScalarType(dtype)));
    done += block;
  }
}
