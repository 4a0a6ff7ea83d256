//===- Export.cpp - Unsharded weights into files --------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/states/Exporter.h"

#include "plan/DType.h"
#include "plan/Quantized.h"
#include "plan/Shape.h"
#include "plan/StateParts.h"
#include "runtime/device/DTypes.h"
#include "runtime/states/Averages.h"
#include "runtime/states/Parts.h"
#include "support/Error.h"
#include "support/QuantizedBlocks.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

using namespace fsdp;

/// What a rank holds of all ranks' rows at once.
static constexpr uint64_t kHeldAtOnce = 8 << 20;

Exporter::Exporter(const plan::PlanT &plan, const Arenas &arenas,
                   Fabric &fabric, const std::string &key, Exported what,
                   const std::vector<std::string> &without)
    : plan(plan), arenas(arenas), fabric(fabric), key(key),
      asPeft(what == Exported::Trained && plan.adapter_settings),
      substitutes(what == Exported::Averaged ? listAverages(plan)
                                             : std::map<size_t, size_t>()) {
  if (what == Exported::Averaged)
    checkAverages(plan);
  for (const ExportedState &each : listExported(plan, what, without)) {
    entries.push_back(makeEntry(each));
    if (!each.adapter)
      continue;
    for (int64_t matrix :
         {int64_t(each.adapter->down), int64_t(each.adapter->up),
          int64_t(each.adapter->magnitude)})
      if (matrix >= 0)
        matrices.push_back(makeEntry({static_cast<size_t>(matrix), {}}));
  }
  if (what == Exported::Trained)
    addWidened();
}

/// The number of the state whose values are written for that one.
size_t Exporter::resolve(size_t state) const {
  auto other = substitutes.find(state);
  return other == substitutes.end() ? state : other->second;
}

Exporter::Entry Exporter::makeEntry(const ExportedState &each) const {
  size_t number = resolve(each.state);
  const plan::StateT &state = *plan.states[number];
  return {&state,
          state.flat < 0 ? number : static_cast<size_t>(state.flat),
          each.names,
          each.adapter,
          {},
          /*widened=*/-1,
          /*first=*/nullptr};
}

/// All tensors, in files of at most `shardBytes` or one tensor.
std::vector<Exporter::Contents> Exporter::divide(uint64_t shardBytes) {
  std::vector<Contents> all(1);
  for (size_t i = 0; i < entries.size(); ++i) {
    const plan::StateT &state = *entries[i].state;
    std::vector<int64_t> shape = shapeOf(entries[i]);
    plan::DType dtype = modelDType(state);
    uint64_t bytes = *checkedExtent(shape, {}, dtypeBytes(dtype));
    for (const std::string &name : entries[i].names) {
      if (all.back().bytes != 0 && all.back().bytes + bytes > shardBytes)
        all.emplace_back();
      all.back().tensors.push_back({name, dtype, shape});
      all.back().owners.push_back(i);
      all.back().bytes += bytes;
    }
  }
  return all;
}

void Exporter::addFile(const std::string &path, Contents contents) {
  std::string head = layoutSafetensors(contents.tensors);
  for (size_t i = 0; i < contents.tensors.size(); ++i)
    entries[contents.owners[i]].places.push_back(
        {files.size(), contents.tensors[i].offset});
  files.push_back(std::make_unique<AtomicFile>(path));
  files.back()->write(head);
}

void Exporter::open(const std::string &path) {
  addFile(path, std::move(divide(UINT64_MAX).front()));
}

void Exporter::openFolder(const std::string &path, uint64_t shardBytes) {
  namespace fs = std::filesystem;
  std::error_code code;
  fs::create_directories(path, code);
  if (code)
    throw Error(ErrorId::FileNotWritable,
                "folder '" + path + "' cannot be made: " + code.message());
  if (asPeft) {
    addAdapterFolder(path);
    return;
  }
  std::string single = (fs::path(path) / "model.safetensors").string();
  std::string indexPath = single + ".index.json";
  std::vector<Contents> all = divide(shardBytes);
  if (all.size() == 1) {
    addFile(single, std::move(all.front()));
    replaced = indexPath;
    return;
  }
  nlohmann::ordered_json map = nlohmann::ordered_json::object();
  uint64_t total = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    char name[64];
    std::snprintf(name, sizeof(name), "model-%05zu-of-%05zu.safetensors", i + 1,
                  all.size());
    total += all[i].bytes;
    for (const TensorToStore &tensor : all[i].tensors)
      map[tensor.name] = name;
    addFile((fs::path(path) / name).string(), std::move(all[i]));
  }
  index.emplace(indexPath);
  index->write(nlohmann::ordered_json{{"metadata", {{"total_size", total}}},
                                      {"weight_map", map}}
                   .dump(2) +
               "\n");
  replaced = single;
}

/// In the order of the states; the members of a flat one are at its place.
std::vector<Exporter::Home> Exporter::homes() const {
  std::map<size_t, Home> byIndex;
  for (const Entry &entry : entries) {
    Home &home = byIndex[entry.home];
    home.state = plan.states[entry.home].get();
    home.entries.push_back(&entry);
  }
  std::vector<Home> all;
  for (auto &[index, home] : byIndex)
    all.push_back(std::move(home));
  return all;
}

/// Null for a rank alone.
Communicator *
Exporter::getCommunicator(const std::vector<const plan::GroupT *> &cuts,
                          const std::vector<int> &ranks) {
  if (ranks.size() == 1)
    return nullptr;
  std::unique_ptr<Communicator> &communicator = communicators[ranks];
  if (!communicator) {
    std::string name;
    for (const plan::GroupT *group : cuts)
      name += group->name + "/";
    communicator = fabric.createHostCommunicator({name + key, ranks});
  }
  return communicator.get();
}

/// Of so many bytes those that are whole rows of `row`, at least one.
static uint64_t wholeRows(uint64_t bytes, uint64_t row) {
  return std::max<uint64_t>(1, bytes / row) * row;
}

void Exporter::gather(const Home &home) {
  std::vector<const plan::GroupT *> cuts;
  for (const Entry *entry : home.entries)
    for (const plan::GroupT *group : cutsOf(plan, *entry->state))
      if (std::ranges::find(cuts, group) == cuts.end())
        cuts.push_back(group);
  std::vector<int> ranks = ranksAcross(cuts, fabric.rank());
  Communicator *communicator = getCommunicator(cuts, ranks);
  if (!communicator && !isWriter())
    return;
  uint64_t element = dtypeBytes(home.state->dtype), room = roomOf(*home.state);
  uint64_t block =
      std::max<uint64_t>(1, kHeldAtOnce / (element * ranks.size()));
  // Blocks of codes in whole rows.
  if (home.state->quantized)
    block = wholeRows(block, static_cast<uint64_t>(home.state->shape[1]));
  std::unique_ptr<char[]> buffer;
  if (communicator)
    buffer = std::make_unique<char[]>(std::min(block, room) * element *
                                      ranks.size());
  for (uint64_t first = 0; first < room; first += block) {
    uint64_t count = std::min(block, room - first);
    BytesToRead own(arenas.of(*home.state),
                    home.state->offset + first * element, count * element);
    if (communicator) {
      Member member{own.data(), buffer.get(), count * element};
      communicator->wait(communicator->start(
          {{CollectiveKind::all_gather, home.state->name}, {&member, 1}}));
    }
    if (isWriter())
      for (const Entry *entry : home.entries)
        write(*entry,
              {ranks, communicator ? buffer.get() : own.data(), first, count});
  }
}

/// What a block has of the entry. Of members of one flat state, some may be
/// split and others not: of these, one of those that hold the same is read.
void Exporter::write(const Entry &entry, const Block &block) {
  const plan::StateT &state = *entry.state;
  if (state.quantized)
    return writeNumbers(entry, block);
  uint64_t element = dtypeBytes(state.dtype);
  std::vector<int64_t> shape = wholeShape(plan, state);
  std::vector<int64_t> strides = contiguousStrides(shape);
  Region whole = Region::all(shape);
  std::vector<int> holders = ranksAcross(cutsOf(plan, state), fabric.rank());
  std::vector<Run> runs;
  for (size_t i = 0; i < block.ranks.size(); ++i) {
    if (!std::ranges::binary_search(holders, block.ranks[i]))
      continue;
    const char *data = block.data + i * block.count * element;
    for (const Part &part :
         ownPartsIn(plan, state, block.ranks[i], block.first, block.count)) {
      uint64_t at = distance(part.region, whole, strides);
      const char *from = data + (part.first - block.first) * element;
      forEachRun(part.region.size, strides, part.strides,
                 [&](uint64_t a, uint64_t b, uint64_t count) {
                   runs.push_back({(at + a) * element,
                                   {from + b * element, count * element}});
                 });
    }
  }
  write(entry, std::move(runs));
}

/// The numbers that the block's codes stand for, rank by rank.
void Exporter::writeNumbers(const Entry &entry, const Block &block) {
  const plan::StateT &state = *entry.state;
  const plan::QuantizedT &model = *state.quantized;
  BlockForm form = toBlockForm(model);
  auto elements = static_cast<int64_t>(*checkedElements(model.shape));
  std::vector<int> holders = ranksAcross(cutsOf(plan, state), fabric.rank());
  std::vector<float> wide;
  std::vector<char> bytes;
  for (size_t i = 0; i < block.ranks.size(); ++i) {
    if (!std::ranges::binary_search(holders, block.ranks[i]))
      continue;
    const char *data = block.data + i * block.count;
    for (const Part &part :
         ownPartsIn(plan, state, block.ranks[i], block.first, block.count)) {
      int64_t first = part.region.offset[0] * form.getRowElements();
      int64_t count = std::min(part.region.size[0] * form.getRowElements(),
                               elements - first);
      int64_t blocks = form.countBlocks(count);
      wide.resize(static_cast<size_t>(blocks * form.elements));
      dequantizeBlocks(form,
                       reinterpret_cast<const uint8_t *>(data) +
                           (part.first - block.first),
                       0, blocks, wide.data());
      uint64_t element = dtypeBytes(model.dtype);
      bytes.resize(static_cast<size_t>(count) * element);
      at::from_blob(bytes.data(), {count}, toScalarType(model.dtype))
          .copy_(at::from_blob(wide.data(), {count}, at::kFloat));
      store(entry, {static_cast<uint64_t>(first) * element,
                    {bytes.data(), bytes.size()}});
    }
  }
}

/// Runs that follow one another are put together, so that what is cut along an
/// inner dim is written in long ones, too.
void Exporter::write(const Entry &entry, std::vector<Run> runs) {
  std::ranges::sort(runs, {}, &Run::at);
  std::string joined;
  for (size_t i = 0; i < runs.size();) {
    Run all = runs[i];
    joined.clear();
    uint64_t end = all.at + all.bytes.size();
    for (++i; i < runs.size() && runs[i].at == end; ++i) {
      if (joined.empty())
        joined = all.bytes;
      joined += runs[i].bytes;
      end += runs[i].bytes.size();
    }
    if (!joined.empty())
      all.bytes = joined;
    store(entry, all);
  }
}

/// In the model's type.
static std::string narrow(const plan::StateT &state, std::string_view bytes) {
  auto count = static_cast<int64_t>(bytes.size() / dtypeBytes(state.dtype));
  std::string result(static_cast<size_t>(count) * dtypeBytes(state.model_dtype),
                     '\0');
  at::from_blob(result.data(), {count}, toScalarType(state.model_dtype))
      .copy_(at::from_blob(const_cast<char *>(bytes.data()), {count},
                           toScalarType(state.dtype)));
  return result;
}

void Exporter::store(const Entry &entry, const Run &run) {
  if (auto matrix = held.find(entry.state); matrix != held.end()) {
    std::memcpy(static_cast<char *>(matrix->second.data_ptr()) + run.at,
                run.bytes.data(), run.bytes.size());
    return;
  }
  std::string_view bytes = run.bytes;
  std::unique_ptr<char[]> sums;
  if (auto delta = deltas.find(entry.state); delta != deltas.end()) {
    // As it is held, unless codes have become numbers.
    plan::DType dtype =
        entry.state->quantized ? modelDType(*entry.state) : entry.state->dtype;
    uint64_t element = dtypeBytes(dtype);
    sums = std::make_unique<char[]>(bytes.size());
    std::memcpy(sums.get(), bytes.data(), bytes.size());
    at::Tensor elements = at::from_blob(
        sums.get(), {static_cast<int64_t>(bytes.size() / element)},
        toScalarType(dtype));
    auto first = static_cast<int64_t>(run.at / element);
    if (isMeasuring) {
      if (delta->second.hasMagnitude())
        delta->second.measure(elements, first);
      return;
    }
    delta->second.addTo(elements, first);
    bytes = {sums.get(), bytes.size()};
  }
  if (isMeasuring)
    return;
  uint64_t at = run.at;
  std::string narrowed;
  if (entry.state->is_widened) {
    narrowed = narrow(*entry.state, bytes);
    at = at / dtypeBytes(entry.state->dtype) *
         dtypeBytes(entry.state->model_dtype);
    bytes = narrowed;
  }
  for (const Place &place : entry.places)
    files[place.file]->writeAt(place.offset + at, bytes);
}

void Exporter::run() {
  for (const Home &home : homes()) {
    gatherAdapters(home);
    gather(home);
  }
  if (isWriter())
    writeWidened();
  for (const auto &file : files)
    file->commit();
  if (index)
    index->commit();
  if (!replaced.empty()) {
    std::error_code code;
    std::filesystem::remove(replaced, code);
  }
  // Nobody is done before the file is there.
  fabric.exchange(key, "written");
}

bool fsdp::isExportFolder(const std::string &path) {
  std::error_code code;
  return path.ends_with('/') || std::filesystem::is_directory(path, code);
}

void fsdp::exportWeights(const plan::PlanT &plan, const Arenas &arenas,
                         Fabric &fabric, const std::string &key,
                         const std::string &path, uint64_t shardBytes,
                         Exported what,
                         const std::vector<std::string> &without) {
  Exporter exporter(plan, arenas, fabric, key, what, without);
  if (fabric.rank() == 0) {
    if (isExportFolder(path))
      exporter.openFolder(path, shardBytes);
    else
      exporter.open(path);
  }
  exporter.run();
}
